"""File servers of other protocols, each over a folder: a WebDAV, an SFTP, an SMB and an FTP server on loopback."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import socket
import socketserver
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import asyncssh
import pytest
from wsgidav.wsgidav_app import WsgiDAVApp

from tests.support.places import PASSWORD, USER, Folder


class Share(Folder):
    """Folder `files` of a file server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "share" / "files")
        self.served = self.folder.parent

    def close(self) -> None:
        """Stop the server."""


class _Threads(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class WebDav(Share):
    """WebDAV by wsgidav. `instead` maps methods and paths to answers in place of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.instead: dict[tuple[str, str], tuple[str, list[tuple[str, str]], bytes]] = {}
        app = WsgiDAVApp(
            {
                "provider_mapping": {"/": str(self.served)},
                "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
                "verbose": 0,
            }
        )

        def serve(request: dict[str, Any], start: Any) -> Any:
            answer = self.instead.get((request["REQUEST_METHOD"], request["PATH_INFO"].rstrip("/")))
            if answer is None:
                return app(request, start)
            start(*answer[:2])
            return [answer[2]]

        self.server = make_server("127.0.0.1", 0, serve, _Threads, _Quiet)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.root = "webdav://files"
        self.options = {"base_url": f"http://127.0.0.1:{self.server.server_port}", "auth": [USER, PASSWORD]}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Sftp(Share):
    """OpenSSH's protocol by asyncssh."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.server = asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result()
        self.root = "sftp://127.0.0.1/files"
        self.options = {"port": self.server.get_port(), "username": USER, "password": PASSWORD}

    async def _listen(self) -> Any:
        class Server(asyncssh.SSHServer):
            def validate_password(self, username: str, password: str) -> bool:
                return (username, password) == (USER, PASSWORD)

            def password_auth_supported(self) -> bool:
                return True

        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            server_factory=Server,
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(self.served)),
        )

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)


class Smb(Share):
    """Windows' protocol by Samba. It knows the accounts of the machine alone, so its user is the one of the tests."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        smbd = shutil.which("smbd") or "/usr/sbin/smbd"
        if not os.environ.get("CI") and not Path(smbd).is_file():
            pytest.skip("Samba is not installed")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        conf = folder / "smb.conf"
        own = folder / "samba"
        own.mkdir()
        places = ("lock directory", "state directory", "cache directory", "pid directory", "private dir")
        conf.write_text(
            "[global]\n"
            + "".join(f"{place} = {own}\n" for place in places)
            + f"smb ports = {port}\ninterfaces = lo\nbind interfaces only = yes\nlog file = {own}/log\n"
            + f"ncalrpc dir = {own}/rpc\n"
            + f"[share]\npath = {self.served}\n"
        )
        user = getpass.getuser()
        passwords = f"{PASSWORD}\n{PASSWORD}\n"
        add = ["smbpasswd", "-c", str(conf), "-L", "-a", "-s", user]
        subprocess.run(add, input=passwords, text=True, check=True, capture_output=True)
        # It ends its whole group of processes.
        command = [smbd, "-F", "--no-process-group", "-s", str(conf)]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until, (own / "log").read_text()
                time.sleep(0.02)
        self.root = "smb://127.0.0.1/share/files"
        self.options = {"port": port, "username": user, "password": PASSWORD}

    def close(self) -> None:
        self.server.terminate()
        self.server.wait()


class Ftp(Share):
    """As much of FTP as reading needs. `refused` maps folders to the replies to those who want to list them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.refused: dict[str, str] = {}
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(_FtpSession, self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.root = f"ftp://127.0.0.1:{self.server.server_address[1]}/files"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _FtpSession(socketserver.StreamRequestHandler):
    def __init__(self, share: Ftp, *request: Any) -> None:
        self.share = share
        super().__init__(*request)

    def handle(self) -> None:
        self.say("220 ready")
        begin = 0
        for line in self.rfile:
            command, _, path = line.decode().strip("\r\n").partition(" ")
            match command:
                case "PASV":
                    passive = socket.create_server(("127.0.0.1", 0))
                    port = passive.getsockname()[1]
                    self.say(f"227 passive (127,0,0,1,{port // 256},{port % 256})")
                case "MLSD" if refused := self.share.refused.get(path):
                    self.say(refused)
                case "MLSD":
                    self.send(passive, "".join(map(_facts, sorted(self.here(path).iterdir()))).encode())
                case "REST":
                    begin = int(path)
                    self.say("350 from there")
                case "RETR":
                    self.send(passive, self.here(path).read_bytes()[begin:])
                    begin = 0
                case _:
                    self.say({"USER": "331 password", "PASS": "230 in", "TYPE": "200 so"}.get(command, "502 unknown"))

    def say(self, reply: str) -> None:
        self.wfile.write(f"{reply}\r\n".encode())

    def here(self, path: str) -> Path:
        return self.share.served / path.strip("/")

    def send(self, passive: socket.socket, content: bytes) -> None:
        self.say("150 here it is")
        with passive, passive.accept()[0] as data:
            data.sendall(content)
        self.say("226 done")


def _facts(path: Path) -> str:
    found = path.stat()
    written = time.strftime("%Y%m%d%H%M%S", time.gmtime(found.st_mtime))
    return f"type={'dir' if path.is_dir() else 'file'};size={found.st_size};modify={written}; {path.name}\r\n"

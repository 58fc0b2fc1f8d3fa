// The server's capabilities, over HTTP beside this page.

const TOKEN = "findingaid-token";

/** What the server said was wrong, in one line. `status` is 0 where it did not answer. */
export class Problem extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export const remember = (token) => sessionStorage.setItem(TOKEN, token);

/** What a capability gives for an input. Throws a Problem, or an AbortError where `signal` says so. */
export async function call(capability, input, signal) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  let response;
  try {
    response = await fetch(`v1/${capability}`, { method: "POST", headers, body: JSON.stringify(input), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer.");
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  throw new Problem(body?.error?.message ?? `The server answered ${response.status}.`, response.status);
}

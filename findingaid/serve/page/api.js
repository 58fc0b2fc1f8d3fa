// Client for the server's capabilities over HTTP.

const TOKEN = "findingaid-token";

/** Error reported by the server, in one line. `status` is the HTTP status, or 0 if the server did not answer. */
export class Problem extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export const remember = (token) => sessionStorage.setItem(TOKEN, token);

/** Calls a capability and returns its result. Throws a Problem, or an AbortError if `signal` aborts the call. */
export async function call(capability, input, signal) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  let response;
  try {
    response = await fetch(`v1/${capability}`, { method: "POST", headers, body: JSON.stringify(input), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not respond.");
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  throw new Problem(body?.error?.message ?? `The server answered ${response.status}.`, response.status);
}

// A failure that the person can act on: `code` names its sentences in strings.js.

export class Problem extends Error {
  constructor(code, { retryAfterS = null } = {}) {
    super(code);
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

/** Anything thrown, as a Problem; programming errors are also left in the console. */
export function asProblem(error) {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem("server_error");
}

// Why a server ends a call; "goodbye" is no problem, after "server_stopping" it may be back in a moment.
const CLOSED = {
  idle: "idle",
  idle_timeout: "idle",
  goodbye: "goodbye",
  hung_up: "goodbye",
  replaced: "replaced",
  server_stopping: "server_stopping",
};

/** The reason of `parley.closed`, as a Problem. */
export const closedProblem = (reason) => new Problem(CLOSED[reason] ?? "server_closed");

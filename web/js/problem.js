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

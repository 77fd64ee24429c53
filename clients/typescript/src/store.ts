/** The tokens of a login, with the names of the Go client's file. Times are in RFC 3339. */
export interface Tokens {
  access_token: string;
  expires: string;
  refresh_token: string;
  refresh_expires: string;
  /** Separated by spaces. */
  scope: string;
}

/** Keeps tokens between runs of a program. A client calls one method at a time. */
export interface TokenStore {
  /** Returns the stored tokens, undefined if there are none. */
  load(): Promise<Tokens | undefined>;
  /** Resolves when the tokens are durable; undefined: there are none any more. */
  save(tokens: Tokens | undefined): Promise<void>;
}

import { ProtocolError } from "./errors.js";

/** Returns a count or a number n of an answer. Throws a ProtocolError. */
export function whole(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new ProtocolError("a number is wrong");
  return value;
}

/** Returns a string of an answer that programs use. Throws a ProtocolError. */
export function text(value: unknown): string {
  if (typeof value !== "string") throw new ProtocolError("a string is wrong");
  return value;
}

/** Returns the members of an answer that is an object. Throws a ProtocolError. */
export function members(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ProtocolError("an answer is not an object");
  return value as Record<string, unknown>;
}

/** Returns a list of an answer; undefined: an empty one. Throws a ProtocolError. */
export function list(value: unknown = []): unknown[] {
  if (!Array.isArray(value)) throw new ProtocolError("an answer has no list");
  return value;
}

/** Returns a time of an answer from 0 to most. What is not a number is 0. */
export function bounded(value: unknown, most: number): number {
  return typeof value === "number" && value > 0 ? Math.min(value, most) : 0;
}

/** Throws a TypeError if what a program passes is not an object, or has a member that is not known. */
export function checkMembers(what: string, value: object, known: string[]): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`${what} must be an object such as { ${known[0]}: ... }, not ${JSON.stringify(value)}`);
  }
  for (const name of Object.keys(value)) {
    if (!known.includes(name)) throw new TypeError(`${what}: there is no member ${name}. Write one of ${known.join(", ")}`);
  }
}

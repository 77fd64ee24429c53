/** Returns a count or a number n of an answer. Throws a ProtocolError. */
export declare function whole(value: unknown): number;
/** Returns a string of an answer that programs use. Throws a ProtocolError. */
export declare function text(value: unknown): string;
/** Returns the members of an answer that is an object. Throws a ProtocolError. */
export declare function members(value: unknown): Record<string, unknown>;
/** Returns a list of an answer; undefined: an empty one. Throws a ProtocolError. */
export declare function list(value?: unknown): unknown[];
/** Returns a time of an answer from 0 to most. What is not a number is 0. */
export declare function bounded(value: unknown, most: number): number;
/** Throws a TypeError if what a program passes is not an object, or has a member that is not known. */
export declare function checkMembers(what: string, value: object, known: string[]): void;

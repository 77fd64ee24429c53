/** Returns a count or a number n of an answer. Throws a ProtocolError. */
export declare function whole(value: unknown): number;
/** Returns a text of an answer that programs use. Throws a ProtocolError. */
export declare function text(value: unknown): string;
/** Returns the members of an answer that is an object. Throws a ProtocolError. */
export declare function members(value: unknown): Record<string, unknown>;
/** Returns a list of an answer; undefined: an empty one. Throws a ProtocolError. */
export declare function list(value?: unknown): unknown[];
/** Returns a time of an answer from 0 to most. What is no number is 0. */
export declare function bounded(value: unknown, most: number): number;

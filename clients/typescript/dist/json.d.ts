/**
 * Reads JSON as JSON.parse does, except that prices, sizes and volumes become Decimals. Their digits
 * never pass through a floating point number. Throws a SyntaxError.
 */
export declare function read(text: string): unknown;

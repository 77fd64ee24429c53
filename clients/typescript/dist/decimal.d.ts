/**
 * An exact decimal number: units / 10^scale. It is immutable. `String(d)` is its shortest form
 * without an exponent, as the gateway writes it.
 *
 * Operators such as `<` and `+` throw, because they would compare or join texts. Use `compare` and
 * `add`.
 */
export declare class Decimal {
    private readonly text;
    private big;
    private digits;
    /** The number 0. */
    static readonly zero: Decimal;
    private constructor();
    /** Returns the number that a string such as "-7049.50" or "1e3" has. Throws a SyntaxError. */
    static parse(text: string): Decimal;
    /** Returns units / 10^scale. */
    static of(units: bigint, scale: number): Decimal;
    /** Returns the number of a string in its shortest form, which the caller has checked. */
    static fromWire(text: string): Decimal;
    /** How many digits the fraction has. */
    get scale(): number;
    /** The number times 10^scale. */
    get units(): bigint;
    /** Returns the number times 10^scale for another scale, which must not be below its own. */
    unitsAt(scale: number): bigint;
    /** Returns a number below 0 if this is less than other, 0 if they are equal, else one above 0. */
    compare(other: Decimal): number;
    /** Reports whether both are the same number. */
    equals(other: Decimal): boolean;
    /** Returns the exact sum. */
    add(other: Decimal): Decimal;
    /** Returns the exact difference. */
    sub(other: Decimal): Decimal;
    /** Returns the exact product. */
    mul(other: Decimal): Decimal;
    /** Returns the number with the other sign. */
    negate(): Decimal;
    /** Reports whether the number is 0. */
    isZero(): boolean;
    /** Reports whether the number is below 0. */
    isNegative(): boolean;
    /** Returns the nearest floating point number, for statistics and charts. */
    toNumber(): number;
    /** Returns its shortest form without an exponent. */
    toString(): string;
    /** Returns a string, so that JSON keeps the number exactly. */
    toJSON(): string;
    [Symbol.toPrimitive](hint: string): string;
}

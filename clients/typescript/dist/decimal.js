const form = /^(-?)(\d{1,400})(?:\.(\d{1,400}))?(?:[eE]([+-]?\d{1,3}))?$/;
const powers = [];
function power(n) {
    return (powers[n] ??= 10n ** BigInt(n));
}
// check throws a TypeError if an operand is not a Decimal.
function check(value) {
    if (value instanceof Decimal)
        return;
    const text = typeof value === "number" || typeof value === "string" ? String(value) : "1";
    throw new TypeError(`${typeof value === "string" ? JSON.stringify(value) : String(value)} is not a Decimal: write Decimal.parse(${JSON.stringify(text)})`);
}
/**
 * An exact decimal number: units / 10^scale. It is immutable. `String(d)` is its shortest form
 * without an exponent, as the gateway writes it.
 *
 * Operators such as `<` and `+` throw, because they would compare or join texts. Use `compare` and
 * `add`.
 */
export class Decimal {
    text;
    big;
    digits;
    /** The number 0. */
    static zero = Decimal.fromWire("0");
    constructor(text, big, digits) {
        this.text = text;
        this.big = big;
        this.digits = digits;
    }
    /** Returns the number that a string such as "-7049.50" or "1e3" has. Throws a SyntaxError. */
    static parse(text) {
        const m = form.exec(text);
        if (!m)
            throw new SyntaxError(`not a decimal number: ${JSON.stringify(text.slice(0, 40))}`);
        const [, sign = "", whole = "", fraction = "", exponent = "0"] = m;
        const scale = fraction.length - Number(exponent);
        const units = BigInt(sign + whole + fraction);
        return scale < 0 ? Decimal.of(units * power(-scale), 0) : Decimal.of(units, scale);
    }
    /** Returns units / 10^scale. */
    static of(units, scale) {
        while (scale > 0 && units % 10n === 0n) {
            units /= 10n;
            scale--;
        }
        const negative = units < 0n;
        let text = String(negative ? -units : units);
        if (scale > 0) {
            text = text.padStart(scale + 1, "0");
            text = `${text.slice(0, -scale)}.${text.slice(-scale)}`;
        }
        return new Decimal(negative ? `-${text}` : text, units, scale);
    }
    /** Returns the number of a string in its shortest form, which the caller has checked. */
    static fromWire(text) {
        return new Decimal(text, undefined, -1);
    }
    /** How many digits the fraction has. */
    get scale() {
        if (this.digits < 0) {
            const dot = this.text.indexOf(".");
            this.digits = dot < 0 ? 0 : this.text.length - dot - 1;
        }
        return this.digits;
    }
    /** The number times 10^scale. */
    get units() {
        return (this.big ??= BigInt(this.text.replace(".", "")));
    }
    /** Returns the number times 10^scale for another scale, which must not be below its own. */
    unitsAt(scale) {
        return scale === this.scale ? this.units : this.units * power(scale - this.scale);
    }
    /** Returns a number below 0 if this is less than other, 0 if they are equal, else one above 0. */
    compare(other) {
        check(other);
        if (this.text === other.text)
            return 0;
        const scale = Math.max(this.scale, other.scale);
        return this.unitsAt(scale) < other.unitsAt(scale) ? -1 : 1;
    }
    /** Reports whether both are the same number. */
    equals(other) {
        check(other);
        return this.text === other.text;
    }
    /** Returns the exact sum. */
    add(other) {
        check(other);
        const scale = Math.max(this.scale, other.scale);
        return Decimal.of(this.unitsAt(scale) + other.unitsAt(scale), scale);
    }
    /** Returns the exact difference. */
    sub(other) {
        check(other);
        return this.add(other.negate());
    }
    /** Returns the exact product. */
    mul(other) {
        check(other);
        return Decimal.of(this.units * other.units, this.scale + other.scale);
    }
    /** Returns the number with the other sign. */
    negate() {
        return Decimal.of(-this.units, this.scale);
    }
    /** Reports whether the number is 0. */
    isZero() {
        return this.text === "0";
    }
    /** Reports whether the number is below 0. */
    isNegative() {
        return this.text.startsWith("-");
    }
    /** Returns the nearest floating point number, for statistics and charts. */
    toNumber() {
        return Number(this.text);
    }
    /** Returns its shortest form without an exponent. */
    toString() {
        return this.text;
    }
    /** Returns a string, so that JSON keeps the number exactly. */
    toJSON() {
        return this.text;
    }
    // Returns what console.log of Node.js prints.
    [Symbol.for("nodejs.util.inspect.custom")]() {
        return this.text;
    }
    [Symbol.toPrimitive](hint) {
        if (hint === "string")
            return this.text;
        throw new TypeError("a Decimal has no operators: use compare, add, sub, mul or toNumber");
    }
}

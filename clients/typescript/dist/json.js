import { Decimal } from "./decimal.js";
import { decimalMembers, levelMembers } from "./messages.js";
// Members of REST answers that have decimals, beyond those of messages.
const restMembers = { multiplier: true, lot: true, min_size: true };
const decimals = new Set([...Object.keys(decimalMembers), ...Object.keys(restMembers)]);
const levels = new Set([...Object.keys(levelMembers), "tick"]);
const maxDepth = 64;
/** Meaning of the numbers of a value. */
var Numbers;
(function (Numbers) {
    Numbers[Numbers["Plain"] = 0] = "Plain";
    Numbers[Numbers["Decimals"] = 1] = "Decimals";
    Numbers[Numbers["Levels"] = 2] = "Levels";
    Numbers[Numbers["Level"] = 3] = "Level";
})(Numbers || (Numbers = {}));
const short = new Array(1 << 14).fill(undefined); // by characters
function nameOf(name) {
    return { name, numbers: decimals.has(name) ? Numbers.Decimals : levels.has(name) ? Numbers.Levels : Numbers.Plain };
}
/**
 * Reads JSON as JSON.parse does, except that prices, sizes and volumes become Decimals. Their digits
 * never pass through a floating point number. Throws a SyntaxError.
 */
export function read(text) {
    const r = new Reader(text);
    const v = r.value(Numbers.Plain, 0);
    r.end();
    return v;
}
class Reader {
    text;
    at = 0;
    constructor(text) {
        this.text = text;
    }
    fail() {
        throw new SyntaxError(`not JSON at character ${this.at}`);
    }
    space() {
        for (;;) {
            const c = this.text.charCodeAt(this.at);
            if (c !== 32 && c !== 10 && c !== 13 && c !== 9)
                return c;
            this.at++;
        }
    }
    end() {
        this.space();
        if (this.at < this.text.length)
            this.fail();
    }
    value(numbers, depth) {
        switch (this.space()) {
            case 34: // "
                return this.string();
            case 123: // {
                return this.object(depth);
            case 91: // [
                return this.array(numbers, depth);
            case 116:
                return this.word("true", true);
            case 102:
                return this.word("false", false);
            case 110:
                return this.word("null", null);
        }
        return numbers === Numbers.Decimals ? this.decimal() : this.number();
    }
    word(word, value) {
        if (!this.text.startsWith(word, this.at))
            this.fail();
        this.at += word.length;
        return value;
    }
    object(depth) {
        if (depth === maxDepth)
            this.fail();
        const o = {};
        this.at++;
        if (this.space() === 125) {
            this.at++;
            return o;
        }
        for (;;) {
            if (this.space() !== 34)
                this.fail();
            const { name, numbers } = this.name();
            if (this.space() !== 58)
                this.fail();
            this.at++;
            const v = this.value(numbers, depth + 1);
            if (name === "__proto__")
                Object.defineProperty(o, name, { value: v, enumerable: true, configurable: true, writable: true });
            else
                o[name] = v;
            const c = this.space();
            this.at++;
            if (c === 125)
                return o;
            if (c !== 44)
                this.fail();
        }
    }
    array(numbers, depth) {
        if (depth === maxDepth)
            this.fail();
        const list = [];
        this.at++;
        if (this.space() === 93) {
            this.at++;
            return list;
        }
        for (;;) {
            let of = Numbers.Plain;
            if (numbers === Numbers.Levels)
                of = Numbers.Level;
            else if (numbers === Numbers.Level && list.length < 2)
                of = Numbers.Decimals;
            list.push(this.value(of, depth + 1));
            const c = this.space();
            this.at++;
            if (c === 93)
                return list;
            if (c !== 44)
                this.fail();
        }
    }
    // name reads the name of a member. Short names, as data messages have them, are looked up without
    // a copy.
    name() {
        const first = this.text.charCodeAt(this.at + 1);
        const second = this.text.charCodeAt(this.at + 2);
        if (second === 34 && first > 34 && first < 127 && first !== 92) {
            const known = (short[first << 7] ??= nameOf(String.fromCharCode(first)));
            this.at += 3;
            return known;
        }
        if (this.text.charCodeAt(this.at + 3) === 34 && first > 34 && first < 127 && first !== 92 && second > 34 && second < 127 && second !== 92) {
            const known = (short[(first << 7) | second] ??= nameOf(String.fromCharCode(first, second)));
            this.at += 4;
            return known;
        }
        return nameOf(this.string());
    }
    string() {
        const from = ++this.at;
        for (let i = from; i < this.text.length; i++) {
            const c = this.text.charCodeAt(i);
            if (c === 34) {
                this.at = i + 1;
                return this.text.slice(from, i);
            }
            if (c === 92 || c < 32)
                return this.escaped(from);
        }
        return this.fail();
    }
    // escaped reads a string with escapes, which are left to JSON.parse.
    escaped(from) {
        let i = from;
        for (; i < this.text.length && this.text.charCodeAt(i) !== 34; i++) {
            if (this.text.charCodeAt(i) === 92)
                i++;
        }
        this.at = i + 1;
        return JSON.parse(this.text.slice(from - 1, i + 1));
    }
    // scan moves to the end of a number. It reports whether the number is in the shortest form without
    // an exponent.
    scan() {
        const { text } = this;
        const from = this.at;
        let i = from;
        if (text.charCodeAt(i) === 45)
            i++;
        const whole = i;
        const zero = text.charCodeAt(whole) === 48;
        i = digits(text, i);
        if (i === whole || (zero && i > whole + 1))
            this.fail();
        let plain = !zero || whole === from; // not -0
        let c = text.charCodeAt(i);
        if (c === 46) {
            const fraction = ++i;
            i = digits(text, i);
            if (i === fraction)
                this.fail();
            plain = text.charCodeAt(i - 1) !== 48;
            c = text.charCodeAt(i);
        }
        if (c === 101 || c === 69) {
            const sign = text.charCodeAt(++i);
            if (sign === 43 || sign === 45)
                i++;
            const exponent = i;
            i = digits(text, i);
            if (i === exponent)
                this.fail();
            plain = false;
        }
        this.at = i;
        return plain;
    }
    number() {
        const from = this.at;
        this.scan();
        if (this.at - from > 15)
            return Number(this.text.slice(from, this.at));
        let n = 0;
        for (let i = from; i < this.at; i++) {
            const c = this.text.charCodeAt(i) - 48;
            if (c < 0 || c > 9)
                return Number(this.text.slice(from, this.at));
            n = n * 10 + c;
        }
        return n;
    }
    decimal() {
        const from = this.at;
        const plain = this.scan();
        const text = this.text.slice(from, this.at);
        return plain ? Decimal.fromWire(text) : Decimal.parse(text);
    }
}
function digits(text, i) {
    for (;;) {
        const c = text.charCodeAt(i);
        if (!(c >= 48 && c <= 57))
            return i;
        i++;
    }
}

const crcTable = new Int32Array(256);
for (let n = 0; n < 256; n++) {
    let c = n;
    for (let k = 0; k < 8; k++)
        c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
    crcTable[n] = c;
}
/** Returns the CRC-32 (IEEE) of a text in ASCII. */
export function crc32(text) {
    let c = -1;
    for (let i = 0; i < text.length; i++)
        c = (c >>> 8) ^ crcTable[(c ^ text.charCodeAt(i)) & 0xff];
    return ~c >>> 0;
}
/**
 * The order book of an instrument, made of its updates. It is valid from a snapshot to the first
 * update that does not follow, or whose checksum differs. A book that is not valid shows no levels.
 *
 * The checksum is over whole units of the decimals of the instrument, which updates do not name. A
 * Book finds them with its first checksum.
 */
export class Book {
    #bids = [];
    #asks = [];
    #valid = false;
    #n = 0;
    #depth = 0;
    #decimals;
    /** True while the book is known. */
    get valid() {
        return this.#valid;
    }
    /** The number of the newest update. */
    get n() {
        return this.#n;
    }
    /** How many levels each side has; 0: all. */
    get depth() {
        return this.#depth;
    }
    /**
     * Applies an update. Returns why the book is not valid after it, or undefined. An update of an
     * invalid book that is not a snapshot is "invalid".
     */
    apply(u) {
        if (u.snapshot) {
            this.#bids = [];
            this.#asks = [];
            this.#depth = u.depth;
        }
        else if (!this.#valid) {
            return "invalid";
        }
        else if (u.previous !== this.#n) {
            this.#valid = false;
            return "chain";
        }
        for (const level of u.bids)
            set(this.#bids, level, -1);
        for (const level of u.asks)
            set(this.#asks, level, 1);
        this.#n = u.n;
        this.#valid = this.#matches(u.checksum, u.snapshot);
        return this.#valid ? undefined : "checksum";
    }
    /** Makes the book invalid until its next snapshot. */
    invalidate() {
        this.#valid = false;
    }
    /** Returns the best bids, best first: count of them, or all. An invalid book has none. */
    bids(count = Infinity) {
        return this.#valid ? this.#bids.slice(0, count) : [];
    }
    /** Returns the best asks, best first: count of them, or all. An invalid book has none. */
    asks(count = Infinity) {
        return this.#valid ? this.#asks.slice(0, count) : [];
    }
    /** Returns the best level of each side, undefined where there is none. */
    best() {
        return this.#valid ? { bid: this.#bids[0], ask: this.#asks[0] } : { bid: undefined, ask: undefined };
    }
    // matches compares the checksum, and the number of levels with the depth. The decimals may have
    // changed with a snapshot.
    #matches(checksum, snapshot) {
        if (this.#depth > 0 && Math.max(this.#bids.length, this.#asks.length) > this.#depth)
            return false;
        const count = this.#depth >= 1 && this.#depth < 10 ? this.#depth : 10;
        const bids = this.#bids.slice(0, count);
        const asks = this.#asks.slice(0, count);
        const sum = (price, size) => crc32(`${textOf(bids, price, size)}|${textOf(asks, price, size)}|`);
        const known = this.#decimals;
        if (bids.length + asks.length === 0)
            return sum(0, 0) === checksum;
        if (known && sum(known.price, known.size) === checksum)
            return true;
        if (known && !snapshot)
            return false;
        for (let price = 0; price < 9; price++) {
            for (let size = 0; size < 9; size++) {
                if (sum(price, size) !== checksum)
                    continue;
                this.#decimals = { price, size };
                return true;
            }
        }
        return false;
    }
}
function textOf(levels, price, size) {
    let text = "";
    for (const level of levels)
        text += `${whole(level.price, price)}:${whole(level.size, size)};`;
    return text;
}
// whole returns a number in units of some decimals.
function whole(d, decimals) {
    if (d.scale <= decimals) {
        const text = d.scale === 0 ? String(d) : String(d.units);
        return text === "0" ? text : text + "0".repeat(decimals - d.scale);
    }
    const unit = 10n ** BigInt(d.scale - decimals);
    const half = (d.units < 0n ? -unit : unit) / 2n;
    return String((d.units + half) / unit);
}
// set adds, replaces or removes a level of a side. The order is 1 if the lowest price is first.
function set(side, level, order) {
    let low = 0;
    let high = side.length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        const c = side[middle].price.compare(level.price) * order;
        if (c === 0) {
            if (level.size.isZero())
                side.splice(middle, 1);
            else
                side[middle] = level;
            return;
        }
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!level.size.isZero())
        side.splice(low, 0, level);
}

import { Decimal } from "./decimal.js";
import { ProtocolError } from "./errors.js";
const levelOf = (l) => ({ price: l[0], size: l[1], orders: l[2] });
function bestOf(price, size, orders) {
    return price && size ? { price, size, orders } : undefined;
}
/** Converts a data message; undefined: this version does not know it. Throws a ProtocolError. */
export function eventOf(m, received, replayed = false) {
    let event;
    try {
        event = convert(m, received, replayed);
    }
    catch (err) {
        throw new ProtocolError("a message has a wrong member", { cause: err });
    }
    if (event && !isRight(event))
        throw new ProtocolError("a message has a wrong member");
    return event;
}
const isNumber = (v) => typeof v === "number" && Number.isSafeInteger(v) && v >= 0;
const isText = (v) => typeof v === "string";
const isDecimal = (v) => v instanceof Decimal;
const isAbsent = (v) => v === undefined || v === null;
const isLevel = (v) => isDecimal(v.price) && isDecimal(v.size);
// isRight reports whether what a message has is of its type.
function isRight(e) {
    if (!isText(e.instrument) || !isText(e.time) || !isNumber(e.n))
        return false;
    switch (e.type) {
        case "trade":
            if (!isAbsent(e.oldPrice) && !isDecimal(e.oldPrice))
                return false;
            return isDecimal(e.price) && isDecimal(e.size) && Array.isArray(e.conditions) && (isAbsent(e.oldSize) || isDecimal(e.oldSize));
        case "quote":
            return (!e.bid || isLevel(e.bid)) && (!e.ask || isLevel(e.ask));
        case "book":
            return isNumber(e.depth) && isNumber(e.previous) && isNumber(e.checksum) && e.bids.every(isLevel) && e.asks.every(isLevel);
        case "status":
            return isText(e.phase);
        case "summary":
            return areFigures(e) && [e.last, e.previousClose, e.settlement, e.openInterest].every((v) => isAbsent(v) || isDecimal(v));
        case "bar":
            return areFigures(e) && isText(e.interval) && (isAbsent(e.close) || isDecimal(e.close));
    }
}
function areFigures(e) {
    return isDecimal(e.volume) && isDecimal(e.turnover) && [e.open, e.high, e.low, e.average].every((v) => isAbsent(v) || isDecimal(v));
}
function convert(m, received, replayed) {
    const header = { instrument: m.I, n: m.N, time: m.T, latency: m.D, delay: m.DE ?? 0, received, replayed };
    switch (m.type) {
        case "T":
        case "X":
        case "C":
            return {
                type: "trade", kind: m.type === "T" ? "trade" : m.type === "X" ? "cancel" : "correction", ...header,
                price: m.P, size: m.Z, id: m.X, aggressor: m.G === "B" ? "buyer" : m.G === "S" ? "seller" : undefined, conditions: m.C ?? [],
                oldPrice: m.type === "C" ? m.XP : undefined, oldSize: m.type === "C" ? m.XZ : undefined, of: m.type === "T" ? undefined : m.XN,
            };
        case "Q":
            return { type: "quote", ...header, snapshot: m.R ?? false, bid: bestOf(m.BP, m.BZ, m.BC), ask: bestOf(m.AP, m.AZ, m.AC) };
        case "O":
            return {
                type: "book", ...header, snapshot: "R" in m && m.R, depth: "DL" in m ? m.DL : 0, previous: "L" in m ? m.L : 0,
                bids: (m.B ?? []).map(levelOf), asks: (m.A ?? []).map(levelOf), checksum: m.K,
            };
        case "H":
            return { type: "status", ...header, snapshot: m.R ?? false, phase: m.E, reason: m.Y, until: m.U };
        case "D":
            return {
                type: "summary", ...header, ...figuresOf(m), snapshot: m.R ?? false,
                last: m.LA, previousClose: m.CL, settlement: m.SE, openInterest: m.OI,
            };
        case "K":
            return { type: "bar", ...header, ...figuresOf(m), interval: m.IV, tradingDate: m.TD, close: m.CL, revision: m.R };
    }
    return undefined;
}
function figuresOf(m) {
    return { open: m.OP, high: m.HI, low: m.LO, volume: m.TV, turnover: m.EV, trades: m.TC, average: m.VW };
}

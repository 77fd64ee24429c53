const levelOf = (l) => ({ price: l[0], size: l[1], orders: l[2] });
function bestOf(price, size, orders) {
    return price && size && { price, size, orders };
}
// eventOf converts a data message; undefined: this version does not know it.
export function eventOf(m, received, replayed = false) {
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
            return { type: "bar", ...header, ...figuresOf(m), interval: m.IV, close: m.CL, revision: m.R };
    }
    return undefined;
}
function figuresOf(m) {
    return { open: m.OP, high: m.HI, low: m.LO, volume: m.TV, turnover: m.EV, trades: m.TC, average: m.VW };
}

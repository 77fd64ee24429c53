import { eventOf, type DataMessage, type MarketEvent } from "./events.js";
import type { Access, Rest } from "./rest.js";
import { channelOf, identifierOf, type Series } from "./subscriptions.js";

const page = 1000;

/** Which rows of history to read. Without members, all of them in order of n. */
export interface Range {
  /** Event times, from start on and before end: RFC 3339, or a date. */
  start?: string;
  end?: string;
  /** Only rows above this n. */
  after?: number;
  /** Only rows of this epoch, which must be the current one. */
  epoch?: string;
  /** How many rows. By default all. */
  limit?: number;
  /** True: the newest row first. */
  newestFirst?: boolean;
}

const routes: Record<string, string> = { trades: "trades", quotes: "quotes", status: "statuses", bars: "bars" };

/** Iterates over rows of history, page after page. */
export async function* rowsOf(rest: Rest, tokens: Access, s: Series, r: Range, signal?: AbortSignal): AsyncGenerator<MarketEvent, void, void> {
  const what = routes[channelOf(s)]!;
  const id = identifierOf(s);
  const cut = what === "bars" ? id.lastIndexOf("|") : id.length;
  let left = r.limit ?? Infinity;
  for (let cursor: string | undefined; left > 0; ) {
    const data = (await rest.call(
      {
        method: "GET", path: `/market/${what}`, signal,
        query: {
          instrument: id.slice(0, cut), interval: id.slice(cut + 1) || undefined, start: r.start, end: r.end, after_sequence: r.after,
          epoch: r.epoch, order: r.newestFirst ? "desc" : undefined, limit: Math.min(left, page), cursor,
        },
      },
      tokens,
    )) as Record<string, DataMessage[]> & { next_cursor?: string };
    for (const row of data[what] ?? []) {
      const event = eventOf(row, Date.now());
      if (!event) continue;
      yield event;
      if (--left <= 0) return;
    }
    cursor = data.next_cursor;
    if (!cursor) return;
  }
}

/** Iterates over the elements of a list that REST returns in pages. */
export async function* listOf<T>(
  rest: Rest, tokens: Access, path: string, what: string, query: Record<string, string | undefined>,
): AsyncGenerator<T, void, void> {
  for (let cursor: string | undefined; ; ) {
    const data = (await rest.call({ method: "GET", path, query: { ...query, cursor } }, tokens)) as Record<string, T[]> & { next_cursor?: string };
    yield* data[what] ?? [];
    cursor = data.next_cursor;
    if (!cursor) return;
  }
}

import { ProtocolError, RuedaError, printable } from "./errors.js";
import { eventOf, type DataMessage, type Lost, type MarketEvent } from "./events.js";
import type { Channel } from "./messages.js";
import type { Access, Rest } from "./rest.js";
import { channelOf, identifierOf, splitSeries, type Series } from "./subscriptions.js";
import { momentOf } from "./time.js";
import { checkMembers, list, members, whole } from "./values.js";

const page = 1000;

/** Rows of history that were requested are lost, and requireComplete makes that an error. */
export class IncompleteError extends RuedaError {
  override readonly name = "IncompleteError";
  constructor(
    msg: string,
    /** The ranges that are known so far. */
    readonly lost: Lost[],
  ) {
    super({ code: 0, reason: "", msg });
  }
}

/** Which rows of history to read. Without members, all of them in order of n. */
export interface Range {
  /**
   * Event times from start to before end: a Date, or a string. A string is a date, which is the start
   * of that trading day in the market, or a time such as 2026-11-22T10:00, in UTC without a zone. 7d
   * stands for seven days ago by the clock of this machine, and s, m and h for shorter units.
   */
  start?: string | Date;
  end?: string | Date;
  /** Only rows above this n. */
  after?: number;
  /** Only rows of this epoch, which must be the current one. */
  epoch?: string;
  /** How many rows. By default all. */
  limit?: number;
  /** True: the newest row first. */
  newestFirst?: boolean;
  /** True: rows that are lost are an IncompleteError. By default the client's option decides. */
  requireComplete?: boolean;
}

/** Stored rows, which come page after page. The loop over them may be left at any time. */
export interface Rows<T> extends AsyncGenerator<T, void, void> {
  /**
   * Returns the ranges of rows that cannot be delivered, of the pages that were read. If none was
   * read, it reads the first one, which has the rows that are no longer kept. Later pages can have
   * more ranges. A program that does not call it is warned once, with console.warn.
   */
  lost(): Promise<Lost[]>;
}

/** What happens if rows of a page are lost, and lost was not called. */
export type IfLost = "warn" | "throw" | "nothing";

interface Page {
  rows: DataMessage[];
  lost: Lost[];
  cursor: string | undefined; // of the next page
}

const routes: Record<string, string> = { trades: "trades", quotes: "quotes", status: "statuses", bars: "bars" };

/** Iterates over rows of history, page after page. */
export function rowsOf(rest: Rest, tokens: Access, s: Series, r: Range, ifLost: IfLost, signal?: AbortSignal): Rows<MarketEvent> {
  checkMembers("a range", r, ["start", "end", "after", "epoch", "limit", "newestFirst", "requireComplete"]);
  const start = momentOf("start of a range", r.start);
  const end = momentOf("end of a range", r.end);
  const what = routes[channelOf(s)]!;
  const id = identifierOf(s);
  const cut = what === "bars" ? id.lastIndexOf("|") : id.length;
  const lost: Lost[] = [];
  let left = r.limit ?? Infinity;
  let first: Promise<Page> | undefined;
  let silent = ifLost === "nothing";

  const read = async (cursor?: string): Promise<Page> => {
    const data = members(await rest.call(
      {
        method: "GET", path: `/market/${what}`, signal,
        query: {
          instrument: id.slice(0, cut), interval: id.slice(cut + 1) || undefined, start, end, after_sequence: r.after,
          epoch: r.epoch, order: r.newestFirst ? "desc" : undefined, limit: Math.min(left, page), cursor,
        },
      },
      tokens,
    ));
    const ranges = list(data.lost).map((range) => lostOf(s, members(range)));
    for (const range of ranges) lost.push(range); // may be more than a call can have arguments
    return { rows: list(data[what]) as DataMessage[], lost: ranges, cursor: cursorOf(data) };
  };
  const begin = (): Promise<Page> =>
    (first ??= read().catch((err: unknown) => {
      first = undefined; // to try again
      throw err;
    }));

  async function* rows(): AsyncGenerator<MarketEvent, void, void> {
    if (left <= 0) return;
    for (let p = await begin(); ; p = await read(p.cursor)) {
      if (p.lost.length > 0 && ifLost === "throw") throw new IncompleteError(textOfLost(lost), [...lost]);
      if (p.lost.length > 0 && !silent) {
        silent = true;
        console.warn(`${textOfLost(lost)}. The method lost has all ranges. requireComplete makes it an error`);
      }
      for (const row of p.rows) {
        const event = eventOf(row, Date.now());
        if (!event) continue;
        yield event;
        if (--left <= 0) return;
      }
      if (!p.cursor) return;
    }
  }

  return Object.assign(rows(), {
    async lost(): Promise<Lost[]> {
      silent = true;
      if (left > 0) await begin();
      return [...lost];
    },
  });
}

function lostOf(s: Series, { from, to, start, end, reason }: Record<string, unknown>): Lost {
  const n = (value: unknown): number | undefined => (value === undefined ? undefined : whole(value));
  const at = (value: unknown): string | undefined => printable(value) || undefined;
  return { type: "lost", ...splitSeries(s), from: n(from), to: n(to), start: at(start), end: at(end), reason: printable(reason) };
}

/** Returns the rows that an export lacks, of its header. Throws a ProtocolError. */
export function lostOfExport(table: string, header: string): Lost[] {
  const channel = (table === "depth" ? "order_book" : table) as Channel;
  try {
    return list(JSON.parse(header || "[]")).map((row) => {
      const { instrument, interval, ...range } = members(row);
      const name = [instrument, interval].map(printable).filter(Boolean).join("|");
      return lostOf(`${channel} ${name}`, range);
    });
  } catch (err) {
    throw new ProtocolError("an export with a wrong list of what is lost", { cause: err });
  }
}

const cursorOf = ({ next_cursor }: Record<string, unknown>): string | undefined => (typeof next_cursor === "string" ? next_cursor : undefined);

/** Returns the first lost range, for people. */
export function textOfLost(lost: Lost[]): string {
  const { channel, instrument, from, to, start, end, reason } = lost[0]!;
  const words = [
    "lost rows", from !== undefined && `from N ${from}`, to !== undefined && `to N ${to}`, start !== undefined && `after ${start}`,
    end !== undefined && `before ${end}`, `(${reason})`,
  ];
  const more = lost.length > 1 ? `, and ${lost.length - 1} more` : "";
  return `${channel} ${instrument}: history is incomplete: ${words.filter(Boolean).join(" ")}${more}`;
}

/** Iterates over the elements of a list that REST returns in pages. */
export async function* listOf<T>(
  rest: Rest, tokens: Access, path: string, what: string, query: Record<string, string | undefined>, signal?: AbortSignal,
): AsyncGenerator<T, void, void> {
  for (let cursor: string | undefined; ; ) {
    const data = members(await rest.call({ method: "GET", path, query: { ...query, cursor }, signal }, tokens));
    for (const row of list(data[what])) yield members(row) as T;
    cursor = cursorOf(data);
    if (!cursor) return;
  }
}

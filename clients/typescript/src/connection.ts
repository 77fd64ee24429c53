import type { Engine } from "./engine.js";
import type * as wire from "./messages.js";
import type { Series } from "./subscriptions.js";

/** What the parts of a connection use of it and of each other. Link implements it. */
export interface Connection {
  readonly engine: Engine;
  readonly scope: string[];
  readonly abort: AbortController;
  readonly ready: boolean;
  readonly over: boolean;
  readonly sets: {
    readonly sent: ReadonlyMap<Series, { rejected?: boolean; resumed?: boolean }>;
    covered(s: Series): boolean;
    reconcile(): void;
  };
  readonly sequences: {
    replaying: number;
    ranges(m: wire.Subscription): void;
    caughtUp(position: string): void;
  };
  end(err: Error): void;
  send(message: object): void;
  settle(): void;
  reject(r: { channel: string; instrument: string; reason: string; msg?: string; hint?: string }, removed: boolean): void;
  rejectSeries(s: Series, m: wire.Error): void;
}

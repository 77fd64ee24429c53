// Runs rueda dev, and programs against it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const patience = 60_000;

// dev starts a gateway with a simulated market and returns its URL.
export async function dev(t, ...args) {
  const p = spawn(process.env.RUEDA, ["dev", "--listen", "127.0.0.1:0", "--speed", "20", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(async () => {
    p.kill("SIGINT");
    await once(p, "exit");
  });
  for await (const line of createInterface({ input: p.stdout })) {
    const url = /^ {2}REST +(http:\S+)/.exec(line)?.[1];
    if (!url) continue;
    p.stdout.resume();
    for (;;) {
      if ((await fetch(`${url}/readyz`)).ok) return url;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error("rueda dev has ended");
}

// launch starts the program with arguments, and returns its process and URL.
async function launch(...args) {
  const p = spawn(process.env.RUEDA, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: p.stdout })) {
    const url = /^ {2}REST +(http:\S+)/.exec(line)?.[1];
    if (url) return p.stdout.resume() && { p, url };
  }
  throw new Error(`rueda ${args[0]} has ended`);
}

async function end(p, signal) {
  const exit = once(p, "exit");
  p.kill(signal);
  await exit;
}

// replay starts a gateway that keeps its data in a folder and replays a recording. stop ends it.
export async function replay(t, folder, recording) {
  const { p, url } = await launch("replay", recording, "--speed", "max", "--listen", "127.0.0.1:0", "--data", folder);
  const stop = () => p.exitCode === null && end(p, "SIGINT");
  t.after(stop);
  return { url, stop };
}

// mortal starts a gateway that keeps its data in a folder. kill kills it with SIGKILL, or stops it
// with another signal, and starts it again at the same or another address.
export async function mortal(t, folder) {
  let p;
  const start = async (listen) => {
    const started = await launch("dev", "--listen", listen, "--speed", "5", "--data", folder);
    p = started.p;
    return started.url;
  };
  const stop = (signal) => end(p, signal);
  const url = await start("127.0.0.1:0");
  t.after(() => stop("SIGINT"));
  const kill = async (signal = "SIGKILL", listen = url.slice("http://".length)) => {
    await stop(signal);
    await start(listen);
  };
  return { url, kill };
}

// run runs a program with Node until its lines are enough, or until it ends. It returns the lines.
export async function run(folder, program, args, enough = () => false) {
  const p = spawn(process.execPath, [program, ...args], { cwd: folder });
  const late = setTimeout(() => p.kill("SIGKILL"), patience);
  let errors = "";
  p.stderr.on("data", (text) => (errors += text));
  const exit = once(p, "exit");
  const lines = [];
  for await (const line of createInterface({ input: p.stdout })) {
    lines.push(line);
    if (!p.killed && enough(lines)) p.kill("SIGINT");
  }
  const [code, signal] = await exit;
  clearTimeout(late);
  assert.equal(code, 0, `${program} ended with ${code ?? signal}\n${lines.slice(-20).join("\n")}\n${errors}`);
  return lines;
}

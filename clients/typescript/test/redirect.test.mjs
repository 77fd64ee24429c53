import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";

import { Client } from "@rueda/client";

async function listen(t, answer) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await new Promise((ready) => server.once("listening", ready));
  t.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

test("a redirect is an error, which sends the password to no other address", async (t) => {
  const bodies = [];
  const elsewhere = await listen(t, (request, response) => {
    request.on("data", (text) => bodies.push(String(text)));
    request.on("end", () => response.end("{}"));
  });
  for (const status of [301, 302, 307, 308]) {
    const url = await listen(t, (request, response) => {
      request.resume();
      response.writeHead(status, { Location: elsewhere + request.url }).end();
    });
    const client = new Client(url, { username: "demo", password: "demo" });
    await assert.rejects(client.login(), { code: status });
  }
  assert.deepEqual(bodies, []);
});

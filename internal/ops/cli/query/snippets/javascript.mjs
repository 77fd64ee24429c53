// Prints the quote of an instrument, then its trades as they happen. It needs Node.js 20 or later
// and no packages. It does not resume after a lost connection. For a bot, use package @rueda/client,
// which does: {{.Clients}} has the command that installs it.
// Prices are JavaScript numbers here, which are exact to 15 digits.
const url = process.env.RUEDA_URL || "{{.URL}}";
const username = process.env.RUEDA_USERNAME ?? "{{.User}}";
const password = process.env.RUEDA_PASSWORD ?? "{{.Password}}";
const instrument = "{{.Instrument}}";

async function request(path, options) {
  const answer = await fetch(url + path, options);
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer;
}

const login = await request("/auth/token", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ grant_type: "password", username, password }),
});
const token = (await login.json()).data.access_token;
const get = (path, query, accept) =>
  request(`${path}?${new URLSearchParams(query)}`, { headers: { Authorization: `Bearer ${token}`, Accept: accept } });

const snapshot = await (await get("/market/snapshot", { instruments: instrument }, "application/json")).json();
const quote = snapshot.data.instruments[0].Q ?? {};
console.log("quote", quote.BP, quote.AP);

const stream = await get("/market/stream", { trades: instrument }, "application/x-ndjson");
let rest = "";
for await (const text of stream.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    if (!line.trim()) continue;
    const message = JSON.parse(line);
    if (message.type === "T") console.log("trade", message.N, message.P, message.Z);
  }
}

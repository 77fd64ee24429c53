// make returns an element with properties and content.
export function make(name, properties = {}, ...content) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...content);
  return element;
}

// mask hides tokens and passwords in a text that is shown.
export function mask(text) {
  return text
    .replace(/("(?:access_token|refresh_token|token|password|new_password|secret|otp|uri)"\s*:\s*)"(?:[^"\\]|\\.)*"/g, '$1"••••"')
    .replace(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, (jwt) => `••••${jwt.slice(-4)}`);
}

// indent adds line ends and spaces to a JSON text.
export function indent(text) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [part] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g)) {
    if (part === "{" || part === "[") {
      depth++;
      out += part + line();
    } else if (part === "}" || part === "]") {
      depth--;
      out = /[{[]\s*$/.test(out) ? out.trimEnd() + part : out + line() + part;
    } else if (part === ",") out += part + line();
    else if (part === ":") out += ": ";
    else out += part;
  }
  return out;
}

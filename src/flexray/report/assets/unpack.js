// Turns the compressed texts of this file back into what they were.
async function unpack(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function runScript(text) {
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
}

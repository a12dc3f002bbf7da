// What the four protocols share: cutting text into chunks, server-sent events, numbered tool calls.

export const randomId = () => Math.random().toString(36).slice(2, 10);

export function chunks(text, size) {
  const parts = [];
  for (let at = 0; at < text.length; at += size) parts.push(text.slice(at, at + size));
  return parts;
}

/** The step's tool calls with the ids from which a later request tells its step. */
export function toolCalls(answer, step, nonce) {
  return (answer.tools || []).map((tool, index) => ({ ...tool, id: `c${step}n${index}_${nonce}` }));
}

export const namedEvent = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
export const plainEvent = (data) => `data: ${JSON.stringify(data)}\n\n`;
export const seconds = () => Math.floor(Date.now() / 1000);

/** Thrown to leave a stream whose socket is gone or was cut on purpose. */
export class StreamEnded extends Error {}

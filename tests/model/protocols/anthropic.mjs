// Anthropic Messages: POST /v1/messages.
import { chunks, namedEvent, toolCalls } from './common.mjs';

export async function stream({ answer, step, nonce, model, write, usage, size, afterText }) {
  const emit = (type, data) => write(namedEvent(type, { type, ...data }));
  let index = 0;
  const block = async (opening, deltas) => {
    await emit('content_block_start', { index, content_block: opening });
    for (const delta of deltas) await emit('content_block_delta', { index, delta });
  };
  const close = () => emit('content_block_stop', { index: index++ });
  const input = { input_tokens: usage.input, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 };
  const envelope = { id: `msg_${nonce}`, type: 'message', role: 'assistant', model, content: [] };
  await emit('message_start', { message: { ...envelope, stop_reason: null, stop_sequence: null, usage: input } });
  if (answer.think) {
    const thoughts = chunks(answer.think, size).map((thinking) => ({ type: 'thinking_delta', thinking }));
    const signature = { type: 'signature_delta', signature: 'c2lnbmF0dXJl' };
    await block({ type: 'thinking', thinking: '', signature: '' }, [...thoughts, signature]);
    await close();
  }
  if (answer.text) {
    await block({ type: 'text', text: '' }, chunks(answer.text, size).map((text) => ({ type: 'text_delta', text })));
    await afterText();
    await close();
  }
  const calls = toolCalls(answer, step, nonce);
  for (const call of calls) {
    const parts = chunks(JSON.stringify(call.args || {}), size);
    const deltas = parts.map((partial_json) => ({ type: 'input_json_delta', partial_json }));
    await block({ type: 'tool_use', id: call.id, name: call.name, input: {} }, deltas);
    await close();
  }
  const reason = answer.stop || (calls.length ? 'tool_use' : 'end_turn');
  await emit('message_delta', { delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: usage.output } });
  await emit('message_stop', {});
}

export function whole({ answer, nonce, model }) {
  return {
    id: `msg_${nonce}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [{ type: 'text', text: answer.text || '' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
}

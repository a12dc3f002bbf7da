// OpenAI Responses: POST /v1/responses (codex).
import { chunks, namedEvent, seconds, toolCalls } from './common.mjs';

export async function stream(out) {
  const { answer, nonce, model, write, usage } = out;
  let sequence = 0;
  const emit = (type, data) => write(namedEvent(type, { type, sequence_number: sequence++, ...data }));
  const base = { id: `resp_${nonce}`, object: 'response', created_at: seconds(), model, status: 'in_progress', output: [] };
  const output = [];
  await emit('response.created', { response: base });
  if (answer.think) output.push(await reasoning(out, emit, output.length));
  if (answer.text) output.push(await message(out, emit, output.length));
  for (const call of toolCalls(answer, out.step, nonce)) output.push(await toolCall(out, emit, output.length, call));
  const tokens = {
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.input + usage.output,
  };
  await emit('response.completed', { response: { ...base, status: 'completed', output, usage: tokens } });
}

async function reasoning({ answer, nonce, size }, emit, index) {
  const item = { type: 'reasoning', id: `rs_${nonce}`, summary: [] };
  const at = { item_id: item.id, output_index: index, summary_index: 0 };
  await emit('response.output_item.added', { output_index: index, item });
  await emit('response.reasoning_summary_part.added', { ...at, part: { type: 'summary_text', text: '' } });
  for (const delta of chunks(answer.think, size)) await emit('response.reasoning_summary_text.delta', { ...at, delta });
  await emit('response.reasoning_summary_text.done', { ...at, text: answer.think });
  const done = { ...item, summary: [{ type: 'summary_text', text: answer.think }], encrypted_content: `enc_${nonce}` };
  await emit('response.output_item.done', { output_index: index, item: done });
  return done;
}

async function message({ answer, nonce, size, afterText }, emit, index) {
  const item = { type: 'message', id: `msg_${nonce}`, role: 'assistant', status: 'in_progress', content: [] };
  const at = { item_id: item.id, output_index: index, content_index: 0 };
  await emit('response.output_item.added', { output_index: index, item });
  await emit('response.content_part.added', { ...at, part: { type: 'output_text', text: '' } });
  for (const delta of chunks(answer.text, size)) await emit('response.output_text.delta', { ...at, delta });
  await afterText();
  const content = [{ type: 'output_text', text: answer.text, annotations: [] }];
  const done = { ...item, status: 'completed', content };
  await emit('response.output_item.done', { output_index: index, item: done });
  return done;
}

async function toolCall({ size }, emit, index, call) {
  const where = call.namespace ? { namespace: call.namespace } : {};
  const common = { call_id: call.id, name: call.name, status: 'completed', ...where };
  const text = call.custom ? call.input : JSON.stringify(call.args || {});
  const field = call.custom ? 'input' : 'arguments';
  const item = call.custom
    ? { type: 'custom_tool_call', id: `ctc_${call.id}`, ...common, input: text }
    : { type: 'function_call', id: `fc_${call.id}`, ...common, arguments: text };
  const deltaEvent = call.custom ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta';
  await emit('response.output_item.added', { output_index: index, item: { ...item, [field]: '', status: 'in_progress' } });
  for (const delta of chunks(text, size)) await emit(deltaEvent, { item_id: item.id, output_index: index, delta });
  await emit('response.output_item.done', { output_index: index, item });
  return item;
}

export function whole({ answer, nonce, model }) {
  const content = [{ type: 'output_text', text: answer.text || '', annotations: [] }];
  return {
    id: `resp_${nonce}`,
    object: 'response',
    model,
    status: 'completed',
    output: [{ type: 'message', id: `msg_${nonce}`, role: 'assistant', status: 'completed', content }],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  };
}

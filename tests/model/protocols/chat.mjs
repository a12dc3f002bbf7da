// OpenAI Chat Completions: POST /v1/chat/completions.
import { chunks, plainEvent, seconds, toolCalls } from './common.mjs';

export async function stream({ answer, step, nonce, model, write, usage, size, afterText }) {
  const head = { id: `chatcmpl-${nonce}`, object: 'chat.completion.chunk', created: seconds(), model };
  const emit = (delta, finish = null) => write(plainEvent({ ...head, choices: [{ index: 0, delta, finish_reason: finish }] }));
  await emit({ role: 'assistant', content: '' });
  for (const part of chunks(answer.think || '', size)) await emit({ reasoning_content: part });
  for (const part of chunks(answer.text || '', size)) await emit({ content: part });
  await afterText();
  const calls = toolCalls(answer, step, nonce);
  for (const [index, call] of calls.entries()) {
    const opening = { index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } };
    await emit({ tool_calls: [opening] });
    for (const part of chunks(JSON.stringify(call.args || {}), size)) {
      await emit({ tool_calls: [{ index, function: { arguments: part } }] });
    }
  }
  await emit({}, calls.length ? 'tool_calls' : 'stop');
  const total = usage.input + usage.output;
  const tokens = { prompt_tokens: usage.input, completion_tokens: usage.output, total_tokens: total };
  await write(plainEvent({ ...head, choices: [], usage: tokens }));
  await write('data: [DONE]\n\n');
}

export function whole({ answer, step, nonce, model }) {
  const calls = toolCalls(answer, step, nonce).map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.args || {}) },
  }));
  const message = { role: 'assistant', content: answer.text || '', ...(calls.length ? { tool_calls: calls } : {}) };
  return {
    id: `chatcmpl-${nonce}`,
    object: 'chat.completion',
    created: seconds(),
    model,
    choices: [{ index: 0, finish_reason: calls.length ? 'tool_calls' : 'stop', message }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  };
}

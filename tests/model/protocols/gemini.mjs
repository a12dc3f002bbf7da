// Gemini: POST …/models/NAME:streamGenerateContent and :generateContent.
import { chunks, plainEvent, toolCalls } from './common.mjs';

export async function stream({ answer, step, nonce, model, write, usage, size, afterText }) {
  const usageMetadata = {
    promptTokenCount: usage.input,
    candidatesTokenCount: usage.output,
    totalTokenCount: usage.input + usage.output,
  };
  const emit = (parts, finish) => {
    const candidate = { content: { role: 'model', parts }, index: 0, ...(finish ? { finishReason: finish } : {}) };
    return write(plainEvent({ candidates: [candidate], usageMetadata, modelVersion: model, responseId: nonce }));
  };
  for (const text of chunks(answer.think || '', size)) await emit([{ text, thought: true }]);
  for (const text of chunks(answer.text || '', size)) await emit([{ text }]);
  await afterText();
  const calls = toolCalls(answer, step, nonce).map((call, index) => ({
    functionCall: { id: call.id, name: call.name, args: call.args || {} },
    ...(index === 0 ? { thoughtSignature: 'c2lnbmF0dXJl' } : {}),
  }));
  if (calls.length) await emit(calls);
  await emit([{ text: '' }], 'STOP');
}

export function whole({ answer }) {
  return {
    candidates: [{ content: { role: 'model', parts: [{ text: answer.text || '' }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  };
}

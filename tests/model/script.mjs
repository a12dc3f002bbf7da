// Which script and which step answers a request: worked out from the request alone, so restarts, resumed sessions, forks and
// parallel sessions need no state here.
//
// A user message that holds [[script:NAME]] picks the script. Tool-call ids that we hand out are c<step>n<index>_<random>, so
// the next step is one more than the highest step found after that message. [[id:MARK]] in a user message names it in the log.

import { createHash } from 'node:crypto';

const SCRIPT = /\[\[script:([\w.-]+)\]\]/g;
const MARK = /\[\[id:([\w.-]+)\]\]/g;
const WITHOUT_TOOLS = '(no-tools)';
const CALL_ID = /c(\d+)n\d+_/;

/** The text of a content field, whichever of the four protocols wrote it. */
export function textOf(content) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return content == null ? '' : JSON.stringify(content);
  return content.map((part) => (typeof part === 'string' ? part : (part.text ?? ''))).join('\n');
}

function responsesMessages(body) {
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input || [];
  const messages = [];
  for (const item of input) {
    const type = item.type || 'message';
    if (type === 'message') messages.push({ role: roleOf(item.role), text: textOf(item.content) });
    // A prompt handed to a subagent arrives as an agent_message; its fields differ, so the whole item is searched.
    else if (type === 'agent_message') messages.push({ role: 'user', text: textOf(item.content) + JSON.stringify(item) });
    else if (/_output$/.test(type)) messages.push({ role: 'tool', callId: item.call_id, text: textOf(item.output) });
    else if (/_call$/.test(type)) messages.push({ role: 'assistant', callId: item.call_id || item.id });
  }
  return messages;
}

function chatMessages(body) {
  const messages = [];
  for (const message of body.messages || []) {
    if (message.role === 'tool') {
      messages.push({ role: 'tool', callId: message.tool_call_id, text: textOf(message.content) });
      continue;
    }
    messages.push({ role: roleOf(message.role), text: textOf(message.content) });
    for (const call of message.tool_calls || []) messages.push({ role: 'assistant', callId: call.id });
  }
  return messages;
}

function anthropicMessages(body) {
  const messages = [];
  for (const message of body.messages || []) {
    const parts = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
    for (const part of parts) {
      if (part.type === 'text') messages.push({ role: roleOf(message.role), text: part.text });
      else if (part.type === 'tool_use') messages.push({ role: 'assistant', callId: part.id });
      else if (part.type === 'tool_result') messages.push({ role: 'tool', callId: part.tool_use_id, text: textOf(part.content) });
    }
  }
  return messages;
}

function geminiMessages(body) {
  const messages = [];
  for (const content of body.contents || []) {
    for (const part of content.parts || []) {
      if (part.functionCall) messages.push({ role: 'assistant', callId: part.functionCall.id });
      else if (part.functionResponse) {
        const answer = part.functionResponse;
        messages.push({ role: 'tool', callId: answer.id, text: textOf(answer.response) });
      } else if (part.text != null) messages.push({ role: content.role === 'model' ? 'assistant' : 'user', text: part.text });
    }
  }
  return messages;
}

const roleOf = (role) => (role === 'assistant' || role === 'user' ? role : 'system');

const READERS = { responses: responsesMessages, chat: chatMessages, anthropic: anthropicMessages, gemini: geminiMessages };

/** The request's conversation as a flat list of {role, text?, callId?}. */
export function messagesOf(kind, body) {
  return READERS[kind](body);
}

// What a picture in a request was, whichever of the protocols wrote it: {type, bytes, sha256}.
function picture(type, base64) {
  const bytes = Buffer.from(base64, 'base64');
  return { type, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}

function pictureOf(part) {
  const url = typeof part.image_url === 'string' ? part.image_url : part.image_url?.url;
  const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url || '') || [];
  if (data) return picture(type, data);
  if (part.type === 'image' && part.source?.data) return picture(part.source.media_type, part.source.data);
  if (part.inlineData?.data) return picture(part.inlineData.mimeType, part.inlineData.data);
  return null;
}

/** The pictures in a request's conversation, in order. */
export function picturesOf(body) {
  const items = [body.input, body.messages, body.contents].filter(Array.isArray).flat();
  const parts = items.flatMap((item) => [item.content, item.parts].filter(Array.isArray).flat());
  return parts.map((part) => (part && typeof part === 'object' ? pictureOf(part) : null)).filter(Boolean);
}

/** How hard the request wants the model to think, whichever of the protocols said it. */
export function effortOf(body) {
  return body.reasoning?.effort ?? body.reasoning_effort ?? body.output_config?.effort;
}

function toolNames(kind, body) {
  if (kind === 'gemini') return (body.tools || []).flatMap((t) => t.functionDeclarations || []).map((t) => t.name);
  const names = (body.tools || []).map((t) => t.name || t.function?.name || t.type);
  // codex with gpt-6.x sends its tools as an input item instead.
  for (const item of kind === 'responses' && Array.isArray(body.input) ? body.input : []) {
    if (item.type !== 'additional_tools') continue;
    for (const tool of item.tools || []) {
      if (tool.type === 'namespace') names.push(...tool.tools.map((inner) => `${tool.name}.${inner.name}`));
      else names.push(tool.name);
    }
  }
  return names;
}

/** Position and name of the last user message that names a script, or {at: -1, name: null}. */
function chosenScript(messages) {
  let found = { at: -1, name: null };
  messages.forEach((message, at) => {
    if (message.role !== 'user' || !message.text) return;
    const names = [...message.text.matchAll(SCRIPT)];
    if (names.length) found = { at, name: names[names.length - 1][1] };
  });
  return found;
}

function stepAfter(messages, at) {
  let step = 0;
  let ownIds = 0;
  let toolRounds = 0;
  let last = '';
  for (const message of messages.slice(at + 1)) {
    const id = CALL_ID.exec(message.callId || '');
    if (message.role === 'tool' && id) {
      step = Math.max(step, Number(id[1]) + 1);
      ownIds += 1;
    }
    if (message.role === 'tool' && last !== 'tool') toolRounds += 1;
    last = message.role;
  }
  // An agent that renames our ids still shows how many rounds of tool results there were.
  return ownIds ? step : toolRounds;
}

/** How often each [[id:MARK]] stands in one role's messages of one request; 2 of a user means that a prompt was delivered twice. */
export function marksOf(messages, role = 'user') {
  const counts = {};
  for (const message of messages) {
    if (message.role !== role || !message.text) continue;
    for (const [, mark] of message.text.matchAll(MARK)) counts[mark] = (counts[mark] || 0) + 1;
  }
  return counts;
}

/**
 * What to answer: {name, step, answer, tools, messages, marks, answered, newest}. `answered` are the marks of earlier answers,
 * `newest` is the last user message; a request without tools (a title, a summary) gets the first step of the script "(no-tools)",
 * or plain text.
 */
export function choose(kind, body, scripts) {
  const messages = messagesOf(kind, body);
  const tools = toolNames(kind, body);
  const marks = marksOf(messages);
  const newest = messages.filter((m) => m.role === 'user').pop()?.text || '';
  const common = { tools, messages, marks, answered: marksOf(messages, 'assistant'), newest };
  if (!tools.length) {
    const answer = scripts.get(WITHOUT_TOOLS)?.[0] || { text: 'Scripted title' };
    return { name: WITHOUT_TOOLS, step: 0, answer, ...common };
  }
  const { at, name } = chosenScript(messages);
  const step = stepAfter(messages, at);
  const script = scripts.get(name);
  if (!script) return { name, step, answer: { text: 'Default scripted reply.' }, ...common };
  return { name, step, answer: script[step] || { text: '(script over)' }, ...common };
}

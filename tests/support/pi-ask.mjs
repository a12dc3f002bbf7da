// An extension of pi as a person might have one: a tool by which the model asks its person to choose.
import { Type } from '@earendil-works/pi-ai';
import { defineTool } from '@earendil-works/pi-coding-agent';

const ask = defineTool({
  name: 'ask',
  label: 'Ask',
  description: 'Asks the user to choose',
  parameters: Type.Object({ question: Type.String(), choices: Type.Array(Type.String()) }),
  async execute(_call, { question, choices }, _signal, _update, context) {
    const chosen = await context.ui.select(question, choices);
    return { content: [{ type: 'text', text: `The user chose ${chosen}.` }], details: {} };
  },
});

export default function extension(pi) {
  pi.registerTool(ask);
}

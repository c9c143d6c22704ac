import { toJsonSchema } from '@valibot/to-json-schema';
import { NODE_DOCUMENTS } from '../src/cli/schema/documents.ts';
import { FACTORY_DOCUMENTS } from '../src/cli/schema/factory-documents.ts';

/**
 * The JSON Schema of what each command prints with `--json`, by the name of its file in
 * `docs/json`.
 */
export function jsonSchemas() {
  return Object.fromEntries(
    Object.entries({ ...NODE_DOCUMENTS, ...FACTORY_DOCUMENTS }).map(([name, schema]) => [
      `${name}.schema.json`,
      `${JSON.stringify(toJsonSchema(schema), null, 2)}\n`,
    ]),
  );
}

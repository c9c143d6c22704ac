import { toJsonSchema } from '@valibot/to-json-schema';
import type { GenericSchema } from 'valibot';
import { configSchema } from '../src/cli/commands/bundle/config-file.ts';
import { definedProgram } from '../src/cli/manual.ts';
import { NODE_DOCUMENTS } from '../src/cli/schema/documents.ts';
import { FACTORY_DOCUMENTS } from '../src/cli/schema/factory-documents.ts';
import { JSON_SCHEMA_VERSION } from '../src/domain/report/status-schema.ts';

/**
 * The JSON Schema of what each command prints with `--json`, and of the file of `bundle create
 * --config`, by the name of its file in `docs/json`.
 */
export function jsonSchemas(): Readonly<Record<string, string>> {
  const create = definedProgram()
    .commands.find((command) => command.name() === 'bundle')
    ?.commands.find((command) => command.name() === 'create');
  if (create === undefined) throw new TypeError('there is no command bundle create');
  return Object.fromEntries(
    Object.entries({ ...NODE_DOCUMENTS, ...FACTORY_DOCUMENTS, 'bundle-config': configSchema(create) }).map(
      ([name, schema]) => [`${name}.schema.json`, `${JSON.stringify(jsonSchema(name, schema), withoutWireTypes, 2)}\n`],
    ),
  );
}

function jsonSchema(name: string, schema: GenericSchema): object {
  const { $schema, description, ...members } = toJsonSchema(schema, { target: 'draft-2020-12' });
  const $id = `urn:stickpin:json:${name}:${JSON_SCHEMA_VERSION}`;
  return { $schema, $id, title: titleOf(name), description, ...members };
}

/** The metadata `dbus` is no keyword of JSON Schema. */
function withoutWireTypes(key: string, value: unknown): unknown {
  return key === 'dbus' && typeof value === 'string' ? undefined : value;
}

/** The names of files have hyphens for blanks; only `verify-images` is one word. */
function titleOf(name: string): string {
  if (name === 'bundle-config') return 'The options of stickpin bundle create, in the file of --config';
  if (name === 'bundle-create-plan') return 'stickpin bundle create --dry-run --json';
  if (name === 'message') return 'What commands that only say what they did print with --json';
  if (name === 'error') return 'What a command that failed prints with --json';
  if (name === 'show-images') return 'stickpin show --images --json';
  return `stickpin ${name === 'verify-images' ? name : name.replaceAll('-', ' ')} --json`;
}

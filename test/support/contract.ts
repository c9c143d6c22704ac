import { readdirSync, readFileSync } from 'node:fs';
import { toJsonSchema } from '@valibot/to-json-schema';
import type { Command } from 'commander';
import type { GenericSchema } from 'valibot';
import { actionId } from '../../src/api/authority.ts';
import {
  ACTIONS,
  type Action,
  BUNDLES_PATH,
  busNameOf,
  MANAGER,
  METHODS,
  type MethodContract,
  OBJECT_PATH,
  SERVICE,
} from '../../src/api/contract.ts';
import { introspectBundle, introspectManager } from '../../src/api/introspection.ts';
import { contentsSchema } from '../../src/bundle/format/check-contents.ts';
import { envelopeSchema, PAYLOAD_TYPE } from '../../src/bundle/format/dsse.ts';
import { payloadSchema } from '../../src/bundle/format/schema.ts';
import { roleSchema } from '../../src/bundle/keys/roles.ts';
import { exitCodes } from '../../src/cli/context/cli-error.ts';
import { definedProgram, manualCommands } from '../../src/cli/manual.ts';
import { tomlOf, type WrittenValue } from '../../src/config/print-settings.ts';
import { BUNDLE_TYPE } from '../../src/distribution/linked-bundle.ts';
import { RELEASE_SIGNATURES } from '../../src/domain/model/bundle.ts';
import { hookEnvironment } from '../../src/domain/release/hooks.ts';
import { CODES } from '../../src/domain/report/codes.ts';
import { HOOK_NAMES } from '../../src/domain/settings/hook-units.ts';
import type { Section } from '../../src/domain/settings/sections.ts';
import { settingsTable } from '../../src/domain/settings/settings.ts';
import { digestOf } from '../../src/platform/digest.ts';
import { messageIds } from '../../src/platform/message-ids.ts';
import { verified } from './daemon/scenario.ts';

/**
 * What others build on, as facts of one line each, by contract. docs/compatibility.md says what a
 * version may change of it. A name, a type or a default that changes is another line.
 */
export function contractFacts(): Readonly<Record<string, readonly string[]>> {
  return {
    'bundle-format': [
      ...schemaFacts('envelope', jsonSchemaOf(envelopeSchema)),
      ...schemaFacts('payload', jsonSchemaOf(payloadSchema)),
      ...schemaFacts('contents.json', jsonSchemaOf(contentsSchema)),
      ...[PAYLOAD_TYPE, RELEASE_SIGNATURES.mediaType, BUNDLE_TYPE].map((type) => `media type ${type}`),
    ],
    keys: schemaFacts('keys.d/*.toml', jsonSchemaOf(roleSchema)),
    settings: settingFacts(),
    commands: [
      ...commandFacts(),
      ...Object.entries(exitCodes).map(([name, code]) => `exit code ${code}: ${name}`),
      ...valueFacts(definedProgram(), 'stickpin'),
      ...upperCaseNames('docs/cli.md').map((name) => `variable ${name}`),
    ],
    json: documentFacts(),
    'd-bus': [
      ...[`name ${SERVICE}`, `path ${OBJECT_PATH}`, `paths below ${BUNDLES_PATH}`],
      ...[...busFacts(introspectManager()), ...optionFacts(), ...busFacts(introspectBundle())],
      ...Object.keys(ACTIONS).map((action) => `polkit action ${actionId(action as Action)}`),
      ...errorFacts(),
    ],
    hooks: hookFacts(),
    metrics: tableRows('docs/metrics.md', /^`stickpin_/).map(([name, type, labels]) => `${name} ${type} ${labels}`),
    files: fileFacts(),
    codes: CODES.map(({ short, code }) => `${short} ${code}`),
    kubernetes: [
      ...tableRows('docs/fleet.md', /^`stickpin\.io\//).map(([name]) => `${name}`),
      ...tableRows('docs/fleet.md', /^`(True|False|Unknown)`$/).map(
        (row) => `StickpinHealthy ${row.slice(0, 2).join(' ')}`,
      ),
    ],
    service: [
      ...tableRows('docs/service.md', /^`stickpin[-a-z]*\.(service|socket)`$/).map(([name]) => `${name}`),
      ...upperCaseNames('docs/service.md').map((name) => `signal or field of the journal ${name}`),
    ],
    'journal-messages': Object.entries(messageIds).map(([kind, id]) => `${id} ${kind}`),
  };
}

/** The members of a JSON Schema that count here. */
interface JsonSchema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
}

/** Checks of values have no form in JSON Schema: the types are what counts. */
function jsonSchemaOf(schema: GenericSchema): JsonSchema {
  return toJsonSchema(schema, { errorMode: 'ignore' }) as JsonSchema;
}

/**
 * `payload.update.barrier: object` for each member, and a line for each value of a list. Of several
 * forms each has its lines.
 */
function schemaFacts(path: string, schema: JsonSchema, isRequired = true): string[] {
  const values = schema.enum ?? ('const' in schema ? [schema.const] : []);
  const own = `${path}: ${schema.type ?? 'any'}${isRequired ? ', always there' : ''}`;
  const { properties = {}, required = [], items, additionalProperties: others, anyOf } = schema;
  const defaults = 'default' in schema ? [`${path}, default ${JSON.stringify(schema.default)}`] : [];
  if (anyOf !== undefined) {
    return [...new Set(anyOf.flatMap((one) => schemaFacts(path, one, isRequired))), ...defaults];
  }
  return [
    own,
    ...values.map((value) => `${path} = ${JSON.stringify(value)}`),
    ...defaults,
    ...Object.entries(properties).flatMap(([name, one]) =>
      schemaFacts(`${path}.${name}`, one, required.includes(name)),
    ),
    ...(items === undefined ? [] : schemaFacts(`${path}[]`, items)),
    ...(typeof others === 'object' ? schemaFacts(`${path}.*`, others) : []),
  ];
}

function documentFacts(): string[] {
  return readdirSync('docs/json').flatMap((file) =>
    schemaFacts(file.replace('.schema.json', ''), JSON.parse(readFileSync(`docs/json/${file}`, 'utf8'))),
  );
}

function settingFacts(): string[] {
  return Object.entries<Section>(settingsTable).flatMap(([section, { settings, isNamed }]) =>
    Object.entries(settings).flatMap(([key, { type, default: value }]) => {
      const written = value === undefined ? 'not set' : tomlOf(value as WrittenValue);
      const name = `${section}${isNamed ? '.NAME' : ''}.${key}`;
      return [`${name}: ${type.name}, default ${written}`, ...writtenFacts(name, type.schema)];
    }),
  );
}

/** The words that a setting takes, and the members of its tables, as a person writes them. */
function writtenFacts(name: string, schema: GenericSchema): string[] {
  const written = toJsonSchema(schema, { errorMode: 'ignore', typeMode: 'input' }) as JsonSchema;
  const facts = schemaFacts(name, written, false);
  return written.anyOf === undefined ? facts.slice(1) : facts;
}

function commandFacts(): string[] {
  return manualCommands(definedProgram()).flatMap(({ path, usage, operands, options }) => [
    usage,
    ...[...operands, ...options].map(({ term }) => `stickpin ${path}: ${term}`),
  ]);
}

/** The words that a flag or an operand takes, and what counts without it. */
function valueFacts(command: Command, path: string): string[] {
  const values = [
    ...command.options.map((option) => ({ option, term: option.flags })),
    ...command.registeredArguments.map((option) => ({ option, term: option.name() })),
  ];
  return [
    ...values.flatMap(({ option, term }) => [
      ...(option.argChoices ?? []).map((choice) => `${path}: ${term} = ${choice}`),
      ...(isDefault(option.defaultValue) ? [`${path}: ${term}, default ${JSON.stringify(option.defaultValue)}`] : []),
    ]),
    ...command.commands.flatMap((one) => valueFacts(one, `${path} ${one.name()}`)),
  ];
}

/** An option that may be repeated begins with an empty list, which is no default of its own. */
function isDefault(value: unknown): boolean {
  return value !== undefined && !(Array.isArray(value) && value.length === 0);
}

/** The names of errors by which docs/dbus.md says how a method fails. */
function errorFacts(): string[] {
  const names = Object.values<MethodContract>(METHODS).flatMap(({ about }) => [...about.matchAll(/`Engine\.(\w+)`/g)]);
  return [...new Set(names.map(([, name]) => `error ${SERVICE}.Error.Engine.${name}`))];
}

/** Files that others read or write: not the state, and not what nodes say to each other. */
function fileFacts(): string[] {
  const rows = tableRows('docs/cli.md', /^`\/(etc|run\/stickpin(?!-)|var\/lib\/stickpin\/incoming)\b/);
  const places = [...readFileSync('docs/settings.md', 'utf8').matchAll(/^\d\. (`.*`)$/gm)];
  return [...new Set([...rows.map(([path]) => `${path}`), ...places.map(([, path]) => `${path}`)])];
}

/** `io.stickpin1.Manager method Activate`, then a line for each argument, in its place. */
function busFacts(xml: string): string[] {
  const facts: string[] = [];
  let path = '';
  for (const [, name, attributes = ''] of xml.matchAll(/<(interface|method|signal|property|arg)\b([^>]*)>/g)) {
    const of = Object.fromEntries([...attributes.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value]));
    if (name === 'interface') path = of.name ?? '';
    else if (name === 'arg') facts.push(`${facts.pop()} ${of.direction ?? ''} ${of.type} ${of.name ?? ''}`);
    else if (path.startsWith('io.stickpin')) facts.push(`${path} ${name} ${of.name} ${of.type ?? ''}`.trim());
    else facts.push(`${path} ${name} ${of.name}`);
  }
  return facts.filter((fact) => fact.startsWith('io.stickpin'));
}

function optionFacts(): string[] {
  return Object.entries<MethodContract>(METHODS).flatMap(([key, { args }]) =>
    Object.entries(args.options?.options ?? {}).map(
      ([name, { signature }]) => `${MANAGER} method ${busNameOf(key)} option ${name} ${signature}`,
    ),
  );
}

function hookFacts(): string[] {
  const digest = digestOf('');
  const image = {
    component: 'os',
    pin: true,
    reference: `quay.io/os@${digest}`,
    digest,
    mediaType: '',
    tags: [],
    layers: [],
  };
  const { payload, contents } = verified();
  const release = { bundleId: digest, payload, contents: { ...contents, images: [image] } };
  const environment = hookEnvironment('activated', release) ?? '';
  return [
    ...HOOK_NAMES.map((name) => `hooks.${name}`),
    ...[...environment.matchAll(/^(\w+)=/gm)].map(([, variable]) => `variable ${variable}`),
  ];
}

/** The names of variables or fields in the first column of a page's tables. */
function upperCaseNames(page: string): string[] {
  return tableRows(page, /^`[A-Z_]+`(, `[A-Z_]+`)*$/).flatMap(([names = '']) => names.split(', '));
}

/** The rows of a page's tables whose first cell is like `first`. */
function tableRows(page: string, first: RegExp): string[][] {
  return readFileSync(page, 'utf8')
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
    .filter(([cell = '']) => first.test(cell));
}

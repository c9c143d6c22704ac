import { readdirSync, readFileSync } from 'node:fs';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { jsonSchemas } from '../../../packaging/json-schemas.ts';
import type { CommandAdapters } from '../../../src/cli/context/command-adapters.ts';
import { NODE_DOCUMENTS } from '../../../src/cli/schema/documents.ts';
import { sampleReport } from '../../support/bus/fake-backend.ts';
import { NOON } from '../../support/daemon/scenario.ts';
import { runCommand } from '../../support/run-command.ts';

const client = {
  report: async () => sampleReport(),
  checkPulls: async () => undefined,
  getHistory: async () => [
    {
      at: NOON,
      kind: 'ready',
      message: 'is ready',
      bundleId: sampleReport().bundles[0]?.bundleId as never,
      medium: 'sdb1',
    },
    { at: NOON, kind: 'mediumGone', message: 'sdb1 was removed' },
  ],
  verifyImages: async () => [
    { image: 'quay.io/a', releases: ['ocp@1'], result: 'whole' as const, found: 'all', next: '' },
  ],
  approve: async () => 'ocp@1 is approved.',
  activate: async () => undefined,
  rollback: async () => 'ocp@4.13.6',
  cancel: async () => undefined,
  rescan: async () => undefined,
  load: async () => '/mnt',
  unpin: async () => 'ocp@4.13.6 is no longer pinned',
  revokeKey: async () => 'the key is revoked',
};
const adapters = {
  examineNode: async () => [
    { subject: 'clock', verdict: 'ok', message: 'fine' },
    { subject: 'keys', verdict: 'fault', message: 'none', remedy: 'copy one' },
  ],
  supportSources: [],
  supportSecrets: async () => [],
  packReport: async () => undefined,
  storedState: {},
  watchFleet: async function* () {
    const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' };
    const nodes = [{ name: 'worker-1', isAbsent: false, status: { version: 1, releases: [release] } }];
    yield { self: 'worker-1', peers: [], nodes };
  },
} as unknown as CommandAdapters;

const RUNS = [
  ['status', ['status']],
  ['list', ['list']],
  ['show', ['show', 'ocp@4.13.7']],
  ['show', ['show', 'ocp']],
  ['show', ['show', 'ocp@2026.3.1']],
  ['show', ['show', 'stickpin/a']],
  ['show', ['show', 'b@1']],
  ['show', ['show', 'ocp@4.13.9']],
  ['explain', ['explain']],
  ['explain', ['explain', 'm12', 'bundle/arch']],
  ['history', ['history']],
  ['doctor', ['doctor']],
  ['verify-images', ['verify-images']],
  ['trust-list', ['trust', 'list']],
  ['report', ['report', '--out', '/nonexistent/x.tar.gz']],
  ['message', ['approve', 'ocp@1']],
  ['message', ['activate', 'ocp@4.13.7']],
  ['message', ['rollback']],
  ['message', ['cancel']],
  ['message', ['rescan']],
  ['message', ['load', '/mnt']],
  ['message', ['unpin', 'ocp@4.13.6']],
  ['message', ['fleet', 'wait', 'ocp@4.13.7']],
  ['message', ['trust', 'revoke', 'ab', '--force']],
] as const;

describe('what commands print for programs', () => {
  it.each(RUNS)('is what the schema %s says: stickpin %j', async (name, args) => {
    const { stdout, stderr } = await runCommand([...args, '--json'], { client, adapters });
    expect(stdout, stderr).not.toBe('');
    const { issues } = v.safeParse(NODE_DOCUMENTS[name], JSON.parse(stdout));
    expect(issues?.map(({ message, path }) => `${path?.map(({ key }) => key).join('.')}: ${message}`)).toBeUndefined();
  });

  it('has a schema that knows no other members, and times only as RFC 3339', () => {
    const isStatus = (over: object) =>
      v.is(NODE_DOCUMENTS.status, { schemaVersion: 1, ...JSON.parse(JSON.stringify(sampleReport())), ...over });
    expect(isStatus({})).toBe(true);
    expect(isStatus({ extra: 1 })).toBe(false);
    expect(isStatus({ schemaVersion: 2 })).toBe(false);
    expect(isStatus({ writtenAt: 1_700_000_000_000 })).toBe(false);
    expect(isStatus({ status: undefined })).toBe(false);
  });

  it("has schemas in docs/json as 'npm run docs' writes them", () => {
    const parsed = (texts: readonly (readonly [string, string])[]) =>
      texts.map(([name, text]) => [name, JSON.parse(text)]).sort();
    const written = readdirSync('docs/json').map((name) => [name, readFileSync(`docs/json/${name}`, 'utf8')] as const);
    expect(parsed(written)).toEqual(parsed(Object.entries(jsonSchemas())));
  });

  it('has an id of its own in each schema, and a description of each member of the status that needs one', () => {
    const schemas = Object.entries(jsonSchemas()).map(([name, text]) => ({ name, ...JSON.parse(text) }));
    for (const { name, $id, $schema, title } of schemas) {
      expect($schema).toBe('https://json-schema.org/draft/2020-12/schema');
      expect($id).toBe(`urn:stickpin:json:${name.replace('.schema.json', '')}:1`);
      expect(title).toMatch(name === 'bundle-config.schema.json' ? /--config$/ : /--json$/);
    }
    const status = schemas.find(({ name }) => name === 'status.schema.json');
    const own = ['schemaVersion', 'writtenAt', 'bootId'];
    for (const [name, { description }] of Object.entries<{ description?: string }>(status.properties)) {
      if (!own.includes(name)) expect(description, name).toMatch(/\S/);
    }
  });
});

import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseContents } from '../../../src/bundle/format/check-contents.ts';
import { parsePayload } from '../../../src/bundle/format/schema.ts';
import { contractFacts } from '../../support/contract.ts';

const FOLDER = 'test/contract/bundles';
const files = readdirSync(FOLDER);
const read = (file: string) => JSON.parse(readFileSync(`${FOLDER}/${file}`, 'utf8'));
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));

it.each(files)('%s is read as it was made', (file) => {
  const { payload, contents } = read(file);
  expect(parsePayload(bytes(payload))).toEqual(payload);
  expect(parseContents(bytes(contents), payload.critical)).toEqual(contents);
});

/** `payload.advisories[].reason` of each value in the document. */
function pathsIn(value: unknown, path: string): string[] {
  if (Array.isArray(value)) return [path, ...value.flatMap((one) => pathsIn(one, `${path}[]`))];
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([name, one]) => pathsIn(one, `${path}.${name}`))];
}

it('each member of the format is in one of them', () => {
  const all = files
    .map(read)
    .flatMap(({ payload, contents }) => [...pathsIn(payload, 'payload'), ...pathsIn(contents, 'contents.json')]);
  const members = (contractFacts()['bundle-format'] ?? []).flatMap(
    (fact) => /^((?:payload|contents\.json)[\w.[\]]*): /.exec(fact)?.[1] ?? [],
  );
  expect(members.filter((member) => !all.includes(member))).toEqual([]);
  expect(members).toContain('payload.update.order.canary.labels');
});

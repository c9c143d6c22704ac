import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { digestOf } from '../../../src/platform/digest.ts';

/** Removes the mirror of the state. */
export function loseMirror(stateDirectory: string): void {
  for (const name of ['state.json', 'state.json.before']) rmSync(join(stateDirectory, name), { force: true });
}

/** Removes the signed documents of all releases, from which they could be rebuilt. */
export function loseSigned(stateDirectory: string): void {
  rmSync(join(stateDirectory, 'blobs/bundles'), { recursive: true, force: true });
}

/** A document in the mirror of the state. */
export function mirroredDocument(stateDirectory: string, name: string): unknown {
  const { content } = JSON.parse(readFileSync(join(stateDirectory, 'state.json'), 'utf8'));
  const found = content.tables.document.find((row: { readonly name: string }) => row.name === name);
  return found === undefined ? undefined : JSON.parse(found.content);
}

/** The stored revocations in the mirror of the state. */
export function mirroredRevocations(stateDirectory: string): string {
  const { content } = JSON.parse(readFileSync(join(stateDirectory, 'state.json'), 'utf8'));
  return content.tables.document.find(({ name }: { readonly name: string }) => name === 'revocations')?.content ?? '';
}

/** Changes the content of a sealed file, and seals it again. */
export function sealState(path: string, change: (content: object) => object): void {
  const body = JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')).content));
  writeFileSync(path, `{"checksum":"${digestOf(body)}","content":${body}}\n`);
}

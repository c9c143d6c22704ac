import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import type { RevocationRecord } from '../../domain/trust/revocation-record.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

const keyId = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const time = v.pipe(v.number(), v.safeInteger());
const documentSchema = v.object({
  schemaVersion: v.literal(1),
  folders: v.array(v.string()),
  revocations: v.array(
    v.object({
      keyId,
      otherIds: v.array(keyId),
      bundleId: v.exactOptional(v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value))),
      at: time,
      restoredAt: v.exactOptional(time),
    }),
  ),
});

/** Where a node keeps its record beside the pins, so that it outlasts the state database. */
export function revocationRecordPath(stateDirectory: string): string {
  return join(stateDirectory, 'revocations.json');
}

/** The text of a record, the same for the same record. */
export function formatRevocationRecord({ folders, revocations }: RevocationRecord): string {
  return `${JSON.stringify({ schemaVersion: 1, folders, revocations }, undefined, 1)}\n`;
}

/** The record in a text. @throws AppError `bundle/revocation-record` (`wait`) when it is damaged */
export function parseRevocationRecord(text: string, name: string): RevocationRecord {
  try {
    const { folders, revocations } = v.parse(documentSchema, JSON.parse(text));
    return { folders, revocations };
  } catch (cause) {
    throw unreadable(name, 'is damaged', cause);
  }
}

/**
 * The record in a file; undefined when there is none. @throws AppError `bundle/revocation-record`
 * (`wait`) when it can't be read or is damaged
 */
export async function readRevocationRecord(path: string): Promise<RevocationRecord | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    if (systemCodeOf(cause) === 'ENOENT') return undefined;
    throw unreadable(path, "can't be read", cause);
  }
  return parseRevocationRecord(text, path);
}

function unreadable(name: string, what: string, cause: unknown) {
  return bundleError('bundle/revocation-record', `${name}, which has the revoked keys, ${what}: ${reasonOf(cause)}`, {
    disposition: 'wait',
    cause,
  });
}

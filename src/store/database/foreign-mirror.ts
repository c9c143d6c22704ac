import { parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import { higherFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import type { Contents } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { EMPTY_RECORD, mergeRecords, type RevocationRecord } from '../../domain/trust/revocation-record.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { DocumentName, Store } from '../../ports/state.ts';
import { floorsDocument, parseFloors, parsePins } from './documents.ts';
import { databaseFrom, type MirrorContent } from './mirror.ts';
import { TrustRows } from './tables/trust-rows.ts';

/**
 * Takes from the mirror of another database what is stronger there: floors, rejections,
 * revocations, and pins of releases that this database does not know. Returns why its revocations
 * can't be read.
 * @throws AppError `store/…`
 */
export function takeForeignMirror(content: MirrorContent, store: Store, now: number): string | undefined {
  const { tables } = content;
  const text = (name: DocumentName) => {
    const content = tables.document?.find((row) => row.name === name)?.content;
    return typeof content === 'string' ? content : undefined;
  };
  const floors = parseFloors(JSON.parse(text('floors') ?? 'null'));
  const ownFloors = parseFloors(JSON.parse(store.document('floors') ?? 'null')) ?? NO_FLOORS;
  if (floors !== undefined)
    store.setDocument('floors', JSON.stringify(floorsDocument(higherFloors(ownFloors, floors))));
  takePins(tables, store);
  const database = databaseFrom(content);
  try {
    store.addRefusals(new TrustRows(database).load(), now);
  } finally {
    database.close();
  }
  const revoked = text('revocations');
  return revoked === undefined ? undefined : takeRevocations(revoked, store);
}

/** Returns why the text can't be used. */
function takeRevocations(text: string, store: Store): string | undefined {
  let record: RevocationRecord;
  try {
    record = parseRevocationRecord(text, 'its mirror');
  } catch (error) {
    return reasonOf(error);
  }
  store.setRevocationRecord(mergeRecords(store.revocationRecord() ?? EMPTY_RECORD, record));
  return undefined;
}

function takePins({ bundle = [], bundle_content = [] }: MirrorContent['tables'], store: Store): void {
  const stored = new Set<unknown>(store.load().bundles.map(({ bundleId }) => bundleId));
  const contents = new Map(bundle_content.map((row) => [row.bundle_id, row.contents]));
  const releases = bundle
    .filter((row) => row.retired_at === null && !stored.has(row.bundle_id))
    .map((row) => ({
      bundleId: row.bundle_id as BundleId,
      name: String(row.name),
      version: String(row.version),
      references: pinsOf(String(contents.get(row.bundle_id))),
    }));
  const ownPins = parsePins(JSON.parse(store.document('pins') ?? 'null'));
  const unclaimed = [...(ownPins?.unclaimed ?? []), ...releases.flatMap(({ references }) => references)];
  const ledger = { releases: [...(ownPins?.releases ?? []), ...releases], unclaimed, givenUp: ownPins?.givenUp ?? [] };
  store.setDocument('pins', JSON.stringify({ ...ledger, isDoubted: true }));
}

function pinsOf(contents: string): string[] {
  const { images } = JSON.parse(contents) as Contents;
  return images.flatMap(({ pin, reference }) => (pin ? [reference] : []));
}

import type { Database } from 'better-sqlite3';
import { formatRevocationRecord, parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type { Pause } from '../../domain/fleet/pause.ts';
import { parseSightings, type Sightings, sightingsText } from '../../domain/fleet/sightings.ts';
import { allIn, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { ConditionMarks, ConditionStatus, ConditionType } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { TagGiven } from '../../domain/state/memory.ts';
import { type PastRelease, type PastSpeaker, withSpeaker } from '../../domain/state/past.ts';
import type { Stored, StoredBundle } from '../../domain/state/state.ts';
import { type KeyRotation, NO_ROTATION, type RejectedName, type Verdict } from '../../domain/trust/approval.ts';
import type { RevocationRecord } from '../../domain/trust/revocation-record.ts';
import type { BundleChange, DocumentName, EventRow, RollbackWhy, Store } from '../../ports/state.ts';
import { parsePauses, parseSpeakers } from './documents.ts';
import type { Recording } from './recording.ts';
import {
  type BundleReviver,
  BundleRows,
  CancellationRows,
  loadBundles,
  PulledImageRows,
} from './tables/bundle-rows.ts';
import { PastRows } from './tables/past-rows.ts';
import { TrustRows, type TrustState } from './tables/trust-rows.ts';

/**
 * The state in SQLite. Every change and its event are one transaction. The values that a round
 * reads are also in memory, and change after the commit.
 * When damage is found, every later change throws `store/damaged` (`wait`), as `trouble()` returns
 * it. The values in memory stay in use.
 */
export class SqliteState implements Omit<Store, 'mirror'> {
  private readonly database: Database;
  private readonly trustRows: TrustRows;
  private readonly pulledImages: PulledImageRows;
  private readonly cancellations: CancellationRows;
  private readonly bundleRows: BundleRows;
  private readonly pastRows: PastRows;
  /** In the order of adoption. */
  private bundles: readonly StoredBundle[];
  private past: readonly PastRelease[];
  private speakers: readonly PastSpeaker[];
  private pulledByUs: ReadonlySet<string>;
  private trust: TrustState;
  private marks: ReadonlyMap<BundleId, ConditionMarks>;
  private tags: readonly TagGiven[];
  private pauses: readonly Pause[];
  private sightings: Sightings;

  /** @throws AppError `store/row` (`fatal`) when a stored row can't be read */
  constructor(
    readonly recording: Recording,
    revive: BundleReviver,
  ) {
    const { database } = recording;
    this.database = database;
    this.trustRows = new TrustRows(database);
    this.pulledImages = new PulledImageRows(database);
    this.cancellations = new CancellationRows(database);
    this.bundleRows = new BundleRows(database);
    this.bundles = loadBundles(database, revive);
    this.pastRows = new PastRows(database);
    this.past = this.pastRows.load();
    this.speakers = parseSpeakers(this.document('speakers'));
    this.pulledByUs = this.pulledImages.load();
    this.trust = this.trustRows.load();
    this.marks = loadConditions(database);
    this.tags = database.prepare<[], TagGiven>('SELECT tag, at FROM tag_given ORDER BY rowid').all();
    this.pauses = parsePauses(this.document('pauses'));
    this.sightings = parseSightings(this.document('sightings'));
  }

  load(): Stored {
    const { bundles, past, speakers, pulledByUs, pauses, sightings } = this;
    return { bundles, past, speakers, pulledByUs, pauses, sightings, ...this.trust };
  }

  settled(signal: AbortSignal): Promise<void> {
    return this.recording.settled(signal);
  }

  trouble(): Fault | undefined {
    return this.recording.trouble();
  }

  append(event: EventRow): void {
    this.recording.write(() => this.recording.events.append(event));
  }

  newestEvent(): number {
    return this.recording.read(() => this.recording.events.newest());
  }

  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[] {
    return this.recording.read(() => this.recording.events.list(bundleId, limit));
  }

  adopt(bundle: VerifiedBundle, event: EventRow, rotation: KeyRotation = NO_ROTATION, isClaim = false): void {
    const past = this.past.find(({ bundleId }) => bundleId === bundle.bundleId)?.record;
    this.rebuild({ ...bundle, ...past, adoptedAt: event.at, ...(isClaim && { claimedAt: event.at }) }, event, rotation);
  }

  rebuild(bundle: StoredBundle, event: EventRow, rotation: KeyRotation = NO_ROTATION): void {
    if (this.bundles.some((known) => known.bundleId === bundle.bundleId)) return;
    this.changeTrust(event, () => {
      this.bundleRows.insert(bundle);
      if (bundle.cancelled !== undefined) this.cancellations.set(bundle.bundleId, bundle.cancelled);
      this.pastRows.remove(bundle.bundleId);
      this.trustRows.addRotation(rotation, bundle.payload.name, event.at);
    });
    this.bundles = [...this.bundles, bundle];
    this.past = this.past.filter(({ bundleId }) => bundleId !== bundle.bundleId);
  }

  forget(bundleId: BundleId, speaker: PastSpeaker | undefined): void {
    const bundle = this.bundles.find((one) => one.bundleId === bundleId);
    if (bundle === undefined) return;
    const others = this.bundles.filter((one) => one !== bundle);
    const named = new Set(others.flatMap(({ contents }) => allIn(contents).map(({ reference }) => reference)));
    const spare = allIn(bundle.contents).flatMap(({ reference }) => (named.has(reference) ? [] : [reference]));
    const speakers = speaker === undefined ? this.speakers : withSpeaker(this.speakers, speaker);
    this.trust = this.recording.writeThrough(() => {
      this.pastRows.add(bundle);
      this.bundleRows.remove(bundleId);
      this.cancellations.set(bundleId, undefined);
      this.trustRows.removeApproval(bundleId);
      this.database.prepare('DELETE FROM condition WHERE bundle_id = ?').run(bundleId);
      for (const reference of spare) this.pulledImages.set(reference, false);
      if (speaker !== undefined) this.writeDocument('speakers', JSON.stringify(speakers));
      return this.trustRows.load();
    });
    [this.bundles, this.speakers, this.past] = [others, speakers, this.pastRows.load()];
    this.pulledByUs = new Set([...this.pulledByUs].filter((reference) => !spare.includes(reference)));
    this.marks = new Map([...this.marks].filter(([one]) => one !== bundleId));
  }

  change(bundleId: BundleId, fields: BundleChange, event?: EventRow): void {
    const isLight = event === undefined && !('activationBegunAt' in fields);
    const write = () => {
      this.bundleRows.set(bundleId, fields);
      if (event !== undefined) this.recording.events.append(event);
    };
    if (isLight) this.recording.write(write);
    else this.recording.writeThrough(write);
    this.keep(bundleId, fields);
  }

  rollBack(
    bundleId: BundleId,
    event: EventRow,
    next: { readonly bundleId: BundleId; readonly event: EventRow },
    { text, isByHand }: RollbackWhy,
  ): void {
    const fields = { rolledBackAt: event.at, rolledBackReason: text, isRolledBackByHand: isByHand };
    const following = { activationRequestedAt: next.event.at };
    this.recording.writeThrough(() => {
      this.bundleRows.set(bundleId, fields);
      this.recording.events.append(event);
      this.bundleRows.set(next.bundleId, following);
      this.recording.events.append(next.event);
    });
    this.keep(bundleId, fields);
    this.keep(next.bundleId, following);
  }

  resetStream(stream: string, event: EventRow): void {
    const speakers = this.speakers.map((one) => (one.payload.name === stream ? { ...one, resetAt: event.at } : one));
    this.changeTrust(event, () => {
      this.trustRows.removeKeysOf(stream);
      this.bundleRows.setReset(stream, event.at);
      this.pastRows.setReset(stream, event.at);
      this.writeDocument('speakers', JSON.stringify(speakers));
    });
    [this.speakers, this.past] = [speakers, this.pastRows.load()];
    this.bundles = this.bundles.map((bundle) =>
      bundle.payload.name === stream ? { ...bundle, resetAt: event.at } : bundle,
    );
  }

  setVerdict(verdict: Verdict, event: EventRow): void {
    this.changeTrust(event, () => this.trustRows.setVerdict(verdict));
  }

  rejectName(rejected: RejectedName, event: EventRow): void {
    this.changeTrust(event, () => this.trustRows.rejectName(rejected));
  }

  allowName(release: Pick<RejectedName, 'name' | 'version'>, event: EventRow): void {
    this.changeTrust(event, () => this.trustRows.allowName(release));
  }

  setPauses(pauses: readonly Pause[], events: readonly EventRow[] = []): void {
    this.recording.writeThrough(() => {
      this.writeDocument('pauses', JSON.stringify(pauses));
      for (const event of events) this.recording.events.append(event);
    });
    this.pauses = pauses;
  }

  setSightings(sightings: Sightings): void {
    const text = sightingsText(sightings);
    if (text === sightingsText(this.sightings)) return;
    this.recording.write(() => this.writeDocument('sightings', text));
    this.sightings = sightings;
  }

  setPulledByUs(reference: string, isPulledByUs: boolean): void {
    if (this.pulledByUs.has(reference) === isPulledByUs) return;
    this.recording.write(() => this.pulledImages.set(reference, isPulledByUs));
    const others = [...this.pulledByUs].filter((other) => other !== reference);
    this.pulledByUs = new Set(isPulledByUs ? [...others, reference] : others);
  }

  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void {
    const cancelled = media && { at: event.at, media };
    this.recording.writeThrough(() => {
      for (const bundleId of bundleIds) this.cancellations.set(bundleId, cancelled);
      this.recording.events.append(event);
    });
    for (const bundleId of bundleIds) this.keep(bundleId, { cancelled });
  }

  setCancelledMedia(bundleId: BundleId, media: readonly MediumId[]): void {
    const at = this.bundles.find((bundle) => bundle.bundleId === bundleId)?.cancelled?.at;
    if (at === undefined) return;
    this.recording.write(() => this.cancellations.set(bundleId, { at, media }));
    this.keep(bundleId, { cancelled: { at, media } });
  }

  conditions(): ReadonlyMap<BundleId, ConditionMarks> {
    return this.marks;
  }

  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void {
    const upsert = this.database.prepare(
      `INSERT INTO condition (bundle_id, type, status, since) VALUES (?, ?, ?, ?)
       ON CONFLICT (bundle_id, type) DO UPDATE SET status = excluded.status, since = excluded.since`,
    );
    this.recording.write(() => {
      for (const [bundleId, marks] of changed) {
        for (const [type, mark] of Object.entries(marks)) {
          const was = this.marks.get(bundleId)?.[type as ConditionType];
          if (was?.status === mark.status && was.since === mark.since) continue;
          upsert.run(bundleId, type, mark.status, mark.since);
        }
      }
    });
    this.marks = new Map([...this.marks, ...changed]);
  }

  tagsGiven(): readonly TagGiven[] {
    return this.tags;
  }

  setTagsGiven(given: readonly TagGiven[]): void {
    const insert = this.database.prepare('INSERT INTO tag_given (tag, at) VALUES (?, ?)');
    this.recording.write(() => {
      this.database.exec('DELETE FROM tag_given');
      for (const { tag, at } of given) insert.run(tag, at);
    });
    this.tags = given;
  }

  revocationRecord(): RevocationRecord | undefined {
    const text = this.document('revocations');
    return text === undefined ? undefined : parseRevocationRecord(text, this.database.name);
  }

  setRevocationRecord(record: RevocationRecord, event?: EventRow): void {
    this.recording.writeThrough(() => {
      this.writeDocument('revocations', formatRevocationRecord(record));
      if (event !== undefined) this.recording.events.append(event);
    });
  }

  document(name: DocumentName): string | undefined {
    return this.recording.read(() => readDocument(this.database, name));
  }

  setDocument(name: DocumentName, content: string): void {
    this.recording.writeThrough(() => this.writeDocument(name, content));
  }

  private writeDocument(name: DocumentName, content: string): void {
    const upsert = this.database.prepare(
      `INSERT INTO document (name, content) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content`,
    );
    upsert.run(name, content);
  }

  private changeTrust(event: EventRow, write: () => void): void {
    this.trust = this.recording.writeThrough(() => {
      write();
      this.recording.events.append(event);
      return this.trustRows.load();
    });
  }

  /** Undefined removes a field. */
  private keep(
    bundleId: BundleId,
    fields: { readonly [Field in keyof StoredBundle]?: StoredBundle[Field] | undefined },
  ) {
    const withFields = (bundle: StoredBundle) => {
      const members = Object.entries({ ...bundle, ...fields }).filter(([, value]) => value !== undefined);
      return Object.fromEntries(members) as unknown as StoredBundle;
    };
    this.bundles = this.bundles.map((bundle) => (bundle.bundleId === bundleId ? withFields(bundle) : bundle));
  }
}

export function readDocument(database: Database, name: DocumentName): string | undefined {
  return database.prepare<[string], string>('SELECT content FROM document WHERE name = ?').pluck().get(name);
}

function loadConditions(database: Database): Map<BundleId, ConditionMarks> {
  const rows = database.prepare<[], { bundle_id: string; type: string; status: string; since: number }>(
    'SELECT bundle_id, type, status, since FROM condition',
  );
  const conditions = new Map<BundleId, ConditionMarks>();
  for (const { bundle_id, type, status, since } of rows.all()) {
    const bundleId = bundle_id as BundleId;
    const mark = { status: status as ConditionStatus, since };
    conditions.set(bundleId, { ...conditions.get(bundleId), [type as ConditionType]: mark });
  }
  return conditions;
}

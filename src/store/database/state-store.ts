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
import type { BundleChange, DocumentName, EventRow, RollbackWhy, Store, TrustState } from '../../ports/state.ts';
import { parsePauses, parseSpeakers, readDocument, writeDocument } from './documents.ts';
import type { Recording, Tables } from './recording.ts';
import { type BundleReviver, loadBundles } from './tables/bundle-rows.ts';

/** What a round reads, in memory. */
interface Values {
  /** They are in the order of adoption. */
  readonly bundles: readonly StoredBundle[];
  readonly past: readonly PastRelease[];
  readonly speakers: readonly PastSpeaker[];
  readonly pulledByUs: ReadonlySet<string>;
  readonly trust: TrustState;
  readonly marks: ReadonlyMap<BundleId, ConditionMarks>;
  readonly tags: readonly TagGiven[];
  readonly pauses: readonly Pause[];
  readonly sightings: Sightings;
}

export interface Opened {
  readonly recording: Recording;
  /** What it had when it was opened. */
  readonly values: Values;
}

/** Finds the open database, which may be another one at each call. */
export interface StateConnection {
  current(): Opened;
  /** Does what `settled` of {@link Store} says. */
  settled(signal: AbortSignal): Promise<void>;
  /** Does what `mirror` of {@link Store} says. */
  writeMirror(signal: AbortSignal): Promise<void>;
}

/** @throws AppError `store/row` (`fatal`) when a stored row can't be read */
export function valuesIn({ database, tables }: Recording, revive: BundleReviver): Values {
  return {
    bundles: loadBundles(database, revive),
    past: tables.past.load(),
    speakers: parseSpeakers(readDocument(database, 'speakers')),
    pulledByUs: tables.bundles.pulledByUs(),
    trust: tables.trust.load(),
    marks: loadConditions(database),
    tags: database.prepare<[], TagGiven>('SELECT tag, at FROM tag_given ORDER BY rowid').all(),
    pauses: parsePauses(readDocument(database, 'pauses')),
    sightings: parseSightings(readDocument(database, 'sightings')),
  };
}

/**
 * The state in SQLite. Every change and its event are one transaction. The values that a round
 * reads are also in memory, and change after the commit.
 * When damage is found, every later change throws `store/damaged` (`wait`), as `trouble()` returns
 * it. The values in memory stay in use.
 */
export class SqliteState implements Store {
  /** Is passed on without its object. */
  readonly settled = (signal: AbortSignal): Promise<void> => this.connection.settled(signal);
  private opened: Opened;
  private values: Values;

  constructor(private readonly connection: StateConnection) {
    this.opened = connection.current();
    this.values = this.opened.values;
  }

  load(): Stored {
    this.current();
    const { bundles, past, speakers, pulledByUs, pauses, sightings, trust } = this.values;
    return { bundles, past, speakers, pulledByUs, pauses, sightings, ...trust };
  }

  mirror(signal: AbortSignal): Promise<void> {
    return this.connection.writeMirror(signal);
  }

  trouble(): Fault | undefined {
    return this.current().trouble();
  }

  append(event: EventRow): void {
    this.current().write(({ events }) => events.append(event));
  }

  newestEvent(): number {
    return this.current().read(({ events }) => events.newest());
  }

  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[] {
    return this.current().read(({ events }) => events.list(bundleId, limit));
  }

  adopt(bundle: VerifiedBundle, event: EventRow, rotation: KeyRotation = NO_ROTATION, isClaim = false): void {
    this.current();
    const past = this.values.past.find(({ bundleId }) => bundleId === bundle.bundleId)?.record;
    this.rebuild({ ...bundle, ...past, adoptedAt: event.at, ...(isClaim && { claimedAt: event.at }) }, event, rotation);
  }

  rebuild(bundle: StoredBundle, event: EventRow, rotation: KeyRotation = NO_ROTATION): void {
    const recording = this.current();
    if (this.values.bundles.some((known) => known.bundleId === bundle.bundleId)) return;
    this.changeTrust(recording, event, (tables) => {
      tables.bundles.insert(bundle);
      tables.past.remove(bundle.bundleId);
      tables.trust.addRotation(rotation, bundle.payload.name, event.at);
    });
    const past = this.values.past.filter(({ bundleId }) => bundleId !== bundle.bundleId);
    this.keep({ bundles: [...this.values.bundles, bundle], past });
  }

  forget(bundleId: BundleId, speaker: PastSpeaker | undefined): void {
    const recording = this.current();
    const { bundles, pulledByUs, marks } = this.values;
    const bundle = bundles.find((one) => one.bundleId === bundleId);
    if (bundle === undefined) return;
    const others = bundles.filter((one) => one !== bundle);
    const named = new Set(others.flatMap(({ contents }) => allIn(contents).map(({ reference }) => reference)));
    const spare = allIn(bundle.contents).flatMap(({ reference }) => (named.has(reference) ? [] : [reference]));
    const speakers = speaker === undefined ? this.values.speakers : withSpeaker(this.values.speakers, speaker);
    const trust = recording.writeThrough((tables) => {
      tables.past.add(bundle);
      tables.bundles.remove(bundleId);
      tables.trust.removeApproval(bundleId);
      for (const reference of spare) tables.bundles.setPulledByUs(reference, false);
      if (speaker !== undefined) writeDocument(recording.database, 'speakers', JSON.stringify(speakers));
      return tables.trust.load();
    });
    this.keep({
      ...{ bundles: others, speakers, trust, past: recording.tables.past.load() },
      pulledByUs: new Set([...pulledByUs].filter((reference) => !spare.includes(reference))),
      marks: new Map([...marks].filter(([one]) => one !== bundleId)),
    });
  }

  change(bundleId: BundleId, fields: BundleChange, event?: EventRow): void {
    const recording = this.current();
    const isLight = event === undefined && !('activationBegunAt' in fields);
    const write = ({ bundles, events }: Tables) => {
      bundles.set(bundleId, fields);
      if (event !== undefined) events.append(event);
    };
    if (isLight) recording.write(write);
    else recording.writeThrough(write);
    this.keepBundle(bundleId, fields);
  }

  rollBack(
    bundleId: BundleId,
    event: EventRow,
    next: { readonly bundleId: BundleId; readonly event: EventRow },
    { text, isByHand }: RollbackWhy,
  ): void {
    const fields = { rolledBackAt: event.at, rolledBackReason: text, isRolledBackByHand: isByHand };
    const following = { activationRequestedAt: next.event.at };
    this.current().writeThrough(({ bundles, events }) => {
      bundles.set(bundleId, fields);
      events.append(event);
      bundles.set(next.bundleId, following);
      events.append(next.event);
    });
    this.keepBundle(bundleId, fields);
    this.keepBundle(next.bundleId, following);
  }

  resetStream(stream: string, event: EventRow): void {
    const recording = this.current();
    const { bundles } = this.values;
    const resetIn = <T extends { readonly payload: { readonly name: string } }>(all: readonly T[]) =>
      all.map((one) => (one.payload.name === stream ? { ...one, resetAt: event.at } : one));
    const speakers = resetIn(this.values.speakers);
    this.changeTrust(recording, event, (tables) => {
      tables.trust.removeKeysOf(stream);
      tables.bundles.setReset(stream, event.at);
      tables.past.setReset(stream, event.at);
      writeDocument(recording.database, 'speakers', JSON.stringify(speakers));
    });
    this.keep({ speakers, past: recording.tables.past.load(), bundles: resetIn(bundles) });
  }

  setVerdict(verdict: Verdict, event: EventRow): void {
    this.changeTrust(this.current(), event, ({ trust }) => trust.setVerdict(verdict));
  }

  rejectName(rejected: RejectedName, event: EventRow): void {
    this.changeTrust(this.current(), event, ({ trust }) => trust.rejectName(rejected));
  }

  allowName(release: RejectedName, event: EventRow): void {
    this.changeTrust(this.current(), event, ({ trust }) => trust.allowName(release));
  }

  addRefusals(refusals: TrustState, at: number): void {
    this.changeTrust(this.current(), undefined, ({ trust }) => trust.addRefusals(refusals, at));
  }

  setPauses(pauses: readonly Pause[], events: readonly EventRow[] = []): void {
    const recording = this.current();
    recording.writeThrough((tables) => {
      writeDocument(recording.database, 'pauses', JSON.stringify(pauses));
      for (const event of events) tables.events.append(event);
    });
    this.keep({ pauses });
  }

  setSightings(sightings: Sightings): void {
    const recording = this.current();
    const text = sightingsText(sightings);
    if (text === sightingsText(this.values.sightings)) return;
    recording.write(() => writeDocument(recording.database, 'sightings', text));
    this.keep({ sightings });
  }

  setPulledByUs(reference: string, isPulledByUs: boolean): void {
    const recording = this.current();
    const { pulledByUs } = this.values;
    if (pulledByUs.has(reference) === isPulledByUs) return;
    recording.write(({ bundles }) => bundles.setPulledByUs(reference, isPulledByUs));
    const others = [...pulledByUs].filter((other) => other !== reference);
    this.keep({ pulledByUs: new Set(isPulledByUs ? [...others, reference] : others) });
  }

  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void {
    const cancelled = media && { at: event.at, media };
    this.current().writeThrough(({ bundles, events }) => {
      for (const bundleId of bundleIds) bundles.setCancelled(bundleId, cancelled);
      events.append(event);
    });
    for (const bundleId of bundleIds) this.keepBundle(bundleId, { cancelled });
  }

  setCancelledMedia(bundleId: BundleId, media: readonly MediumId[]): void {
    const recording = this.current();
    const at = this.values.bundles.find((bundle) => bundle.bundleId === bundleId)?.cancelled?.at;
    if (at === undefined) return;
    recording.write(({ bundles }) => bundles.setCancelled(bundleId, { at, media }));
    this.keepBundle(bundleId, { cancelled: { at, media } });
  }

  conditions(): ReadonlyMap<BundleId, ConditionMarks> {
    this.current();
    return this.values.marks;
  }

  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void {
    const recording = this.current();
    const { marks: before } = this.values;
    const upsert = recording.database.prepare(
      `INSERT INTO condition (bundle_id, type, status, since) VALUES (?, ?, ?, ?)
       ON CONFLICT (bundle_id, type) DO UPDATE SET status = excluded.status, since = excluded.since`,
    );
    recording.write(() => {
      for (const [bundleId, marks] of changed) {
        for (const [type, mark] of Object.entries(marks)) {
          const was = before.get(bundleId)?.[type as ConditionType];
          if (was?.status === mark.status && was.since === mark.since) continue;
          upsert.run(bundleId, type, mark.status, mark.since);
        }
      }
    });
    this.keep({ marks: new Map([...before, ...changed]) });
  }

  tagsGiven(): readonly TagGiven[] {
    this.current();
    return this.values.tags;
  }

  setTagsGiven(tags: readonly TagGiven[]): void {
    const recording = this.current();
    const insert = recording.database.prepare('INSERT INTO tag_given (tag, at) VALUES (?, ?)');
    recording.write(() => {
      recording.database.exec('DELETE FROM tag_given');
      for (const { tag, at } of tags) insert.run(tag, at);
    });
    this.keep({ tags });
  }

  revocationRecord(): RevocationRecord | undefined {
    const { refusal, database } = this.current();
    // What another version recorded is not known.
    if (refusal?.code === 'store/version') throw refusal;
    const text = this.document('revocations');
    return text === undefined ? undefined : parseRevocationRecord(text, database.name);
  }

  setRevocationRecord(record: RevocationRecord, event?: EventRow): void {
    const recording = this.current();
    recording.writeThrough(({ events }) => {
      writeDocument(recording.database, 'revocations', formatRevocationRecord(record));
      if (event !== undefined) events.append(event);
    });
  }

  document(name: DocumentName): string | undefined {
    const recording = this.current();
    return recording.read(() => readDocument(recording.database, name));
  }

  setDocument(name: DocumentName, content: string): void {
    const recording = this.current();
    recording.writeThrough(() => writeDocument(recording.database, name, content));
  }

  /** After a fault it is another connection: what its database has counts then. */
  private current(): Recording {
    const opened = this.connection.current();
    if (opened !== this.opened) this.values = opened.values;
    this.opened = opened;
    return opened.recording;
  }

  private changeTrust(recording: Recording, event: EventRow | undefined, write: (tables: Tables) => void): void {
    const trust = recording.writeThrough((tables) => {
      write(tables);
      if (event !== undefined) tables.events.append(event);
      return tables.trust.load();
    });
    this.keep({ trust });
  }

  private keep(changed: Partial<Values>): void {
    this.values = { ...this.values, ...changed };
  }

  /** Undefined removes a field. */
  private keepBundle(
    bundleId: BundleId,
    fields: { readonly [Field in keyof StoredBundle]?: StoredBundle[Field] | undefined },
  ): void {
    const withFields = (bundle: StoredBundle) => {
      const members = Object.entries({ ...bundle, ...fields }).filter(([, value]) => value !== undefined);
      return Object.fromEntries(members) as unknown as StoredBundle;
    };
    this.keep({
      bundles: this.values.bundles.map((bundle) => (bundle.bundleId === bundleId ? withFields(bundle) : bundle)),
    });
  }
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

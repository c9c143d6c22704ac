import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NO_FLOORS } from '../../../../src/domain/adoption/floors.ts';
import { openFloors, openPinLedger } from '../../../../src/store/files/node-records.ts';
import { LEDGER, NOON } from '../../../support/daemon/scenario.ts';

const { signal } = new AbortController();
const stopped = AbortSignal.abort(new Error('stop'));
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-records-'));
  path = join(folder, 'record.json');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the pin ledger', () => {
  it('keeps what was saved, also when the next save is aborted', async () => {
    const { ledger } = await openPinLedger(path, NOON);
    await ledger.save({ ...LEDGER, unclaimed: ['a@1'] }, signal);
    await expect(ledger.save({ ...LEDGER, unclaimed: [] }, stopped)).rejects.toThrow('stop');
    expect((await openPinLedger(path, NOON)).ledger.load()?.unclaimed).toEqual(['a@1']);
  });

  it('leaves a damaged file in its place when the save is aborted', async () => {
    writeFileSync(path, 'damaged');
    const { ledger } = await openPinLedger(path, NOON);
    await expect(ledger.save(LEDGER, stopped)).rejects.toThrow('stop');
    expect(readFileSync(path, 'utf8')).toBe('damaged');
  });

  it('is written again once a damaged file was renamed, also after an abort', async () => {
    writeFileSync(path, 'damaged');
    const { ledger } = await openPinLedger(path, NOON);
    const stop = new AbortController();
    const saved = ledger.save(LEDGER, stop.signal);
    stop.abort(new Error('stop'));
    await saved;
    expect((await openPinLedger(path, NOON)).ledger.load()).toEqual(LEDGER);
    expect(readdirSync(folder)).toHaveLength(2);
  });
});

describe('the floors', () => {
  it('are neither in the file nor in the database when the save is aborted', async () => {
    const recorded: string[] = [];
    const record = {
      floorRecord: () => recorded.at(-1),
      setFloorRecord: (document: string) => void recorded.push(document),
      renewOrigin: () => undefined,
    };
    const open = () => openFloors({ path, record, isStateLost: false, now: NOON });
    const { floors } = await open();
    const raised = { ...NO_FLOORS, sequences: new Map([['ocp', 7]]) };
    await expect(floors.save(raised, stopped)).rejects.toThrow('stop');
    expect([recorded, readdirSync(folder)]).toEqual([[], []]);
    await floors.save(raised, signal);
    expect((await open()).floors.load().sequences).toEqual(new Map([['ocp', 7]]));
  });

  it.each(['the file', 'the database'])('are the higher ones where %s has an older copy', async (older) => {
    const documents: string[] = [];
    const record = {
      floorRecord: () => documents.at(-1),
      setFloorRecord: (document: string) => void documents.push(document),
      renewOrigin: () => undefined,
    };
    const open = () => openFloors({ path, record, isStateLost: false, now: NOON });
    const save = async (sequence: number) =>
      (await open()).floors.save({ ...NO_FLOORS, sequences: new Map([['ocp', sequence]]) }, signal);
    await save(7);
    const [file, document] = [readFileSync(path), documents.at(-1) ?? ''];
    await save(9);
    if (older === 'the file') writeFileSync(path, file);
    else documents.push(document);
    expect((await open()).floors.load().sequences).toEqual(new Map([['ocp', 9]]));
  });
});

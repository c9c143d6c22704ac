import { expect } from 'vitest';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { createMemoryMedia, type MemoryMedia } from './memory-media.ts';

interface Read {
  readonly advice: StatusReport['advice'];
  readonly status: string;
  readonly atMs: number;
  /** How often somebody did something before the line came up. */
  readonly acts: number;
  /** Sticks that are plugged in, those of which a blob is read now, and how many were read. */
  readonly plugged: readonly string[];
  readonly reading: readonly string[];
  readonly blobsRead: number;
}

/** A person has no time to follow a line that another one replaces so soon. */
const CONTRADICTION_MS = 2_000;

/** What a person at the node reads, with what was true then: what holds for every such log. */
export class PersonLog {
  private readonly entries: Read[] = [];
  private readonly sticks = new Map<string, MemoryMedia>();
  private readonly plugged = new Set<string>();
  private acts = 0;

  /** A port for a stick. What is done with it is an act. */
  port(label: string): MemoryMedia {
    const media = createMemoryMedia(label, label);
    this.sticks.set(label, media);
    const plug: MemoryMedia['plug'] = (files) => {
      this.plugged.add(label);
      this.act(() => media.plug(files));
    };
    const unplug = () => {
      this.plugged.delete(label);
      this.act(() => media.unplug());
    };
    return { ...media, plug, unplug };
  }

  /** Somebody does something that may change the line. */
  act<T>(does: () => T): T {
    this.acts += 1;
    return does();
  }

  /** For each report of the daemon. */
  take({ advice, status }: StatusReport): void {
    const sticks = [...this.sticks];
    const last = this.entries.at(-1);
    this.entries.push({
      advice,
      status,
      atMs: performance.now(),
      acts: last?.status === status ? last.acts : this.acts,
      plugged: [...this.plugged],
      reading: sticks.flatMap(([label, media]) => (media.openReads() > 0 && this.plugged.has(label) ? [label] : [])),
      blobsRead: sticks.reduce((sum, [, { blobsRead }]) => sum + blobsRead.length, 0),
    });
  }

  /** What the person does after each line is right, and the last line lets the person go. */
  check(): void {
    expect(this.entries.flatMap((entry) => wrongNow(entry) ?? [])).toEqual([]);
    expect(this.entries.flatMap((entry, at) => contradiction(entry, this.entries[at + 1]) ?? [])).toEqual([]);
    const last = this.entries.at(-1);
    expect(['none', 'remove', 'call-support']).toContain(last?.advice.action);
  }
}

/** Why it is wrong to do now what the line says. */
function wrongNow({ advice: { action, text }, status, plugged, reading }: Read): string | undefined {
  const names = plugged.length === 1 ? ['the stick'] : reading;
  const isNamed = names.every((name) => text.toLowerCase().includes(name));
  if (reading.length > 0 && !(action === 'leave-in' && isNamed)) return `${reading.join()} is read: ${status}`;
  if (plugged.length === 0 && (action === 'leave-in' || action === 'remove')) return `No stick: ${status}`;
  return undefined;
}

/** A line that asks for something holds until somebody acts, and nothing is read any more. */
function contradiction(read: Read, next: Read | undefined): string | undefined {
  if (next === undefined || next.acts !== read.acts || next.atMs - read.atMs > CONTRADICTION_MS) return undefined;
  const { action, words } = read.advice;
  if (action === 'leave-in' || action === 'wait') return undefined;
  const isSameStick = action !== 'plug-in' || next.advice.words === words;
  const isSame = next.advice.action === action && isSameStick && next.blobsRead === read.blobsRead;
  return isSame ? undefined : `${read.status}\n${next.status}`;
}

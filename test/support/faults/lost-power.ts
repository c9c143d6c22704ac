import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import type { SystemCall } from './system-calls.ts';

/**
 * `doomed`: a sync of it failed, and the kernel counts it as written from then on (fsync(2),
 * "EIO").
 */
type Fate = 'pending' | 'synced' | 'doomed';

interface Change {
  readonly at: number;
  fate: Fate;
}

/** A name in a folder from then on; undefined: it is gone. */
interface Naming extends Change {
  readonly name: string;
  readonly entry: Entry | undefined;
}

/** Bytes at an offset, or a new length. */
interface Writing extends Change {
  readonly offset: number;
  readonly bytes: Buffer | undefined;
}

interface Folder {
  readonly kind: 'folder';
  readonly entries: Map<string, Entry>;
  readonly changes: Naming[];
}

interface File {
  readonly kind: 'file';
  length: number;
  readonly changes: Writing[];
}

type Entry = Folder | File;

/**
 * What a power cut leaves of what was not synced.
 * - `nothing`: names and contents are as they were synced last.
 * - `names`: all names, and no content: the files of no length after a rename.
 * - `some`: names up to a moment, since filesystems journal them in order, and any of the contents.
 */
export const REMAINS = ['nothing', 'names', 'some'] as const;
export type Remains = (typeof REMAINS)[number];

const PAGE_BYTES = 4_096;

/**
 * A folder on a disk that forgets what was not synced. A sync brings to the disk what it names and
 * nothing else: of a file its content, of a folder the names in it.
 */
export class ForgetfulDisk {
  private readonly root: Folder = { kind: 'folder', entries: new Map(), changes: [] };
  private readonly offsets = new Map<string, number>();
  private at = 0;

  /** @param path what is in it now is on the disk */
  constructor(private readonly path: string) {
    this.load(this.root, path);
  }

  /** Returns whether it was a sync that has succeeded. */
  follow(call: SystemCall): boolean {
    this.at += 1;
    const { name, paths, args, result } = call;
    if (name === 'sync' || name === 'syncfs') {
      if (result === 0) this.sync(this.root, 'synced', true);
      return result === 0;
    }
    // What was interrupted has done nothing.
    if (call.error === 'EINTR') return false;
    if (name === 'fsync' || name === 'fdatasync') return this.syncNamed(paths[0], result);
    if (result < 0) return false;
    const [first, second] = paths.filter((path) => path === undefined || !this.isCurrentFolder(path, args));
    if (this.nameOf(first) === undefined && this.nameOf(second) === undefined) return false;
    this.change(call, first ?? '', second ?? '');
    return false;
  }

  /** Writes what a power cut now would leave. @param random see {@link Remains} `some` */
  write(target: string, remains: Remains, random: () => number): void {
    const namesUntil = { nothing: 0, names: this.at, some: Math.floor(random() * this.at) }[remains];
    const isKept = remains === 'some' ? () => random() < 0.5 : () => false;
    const writeFolder = (folder: Folder, path: string) => {
      mkdirSync(path, { recursive: true });
      const entries = new Map<string, Entry>();
      for (const { name, entry, fate, at } of folder.changes) {
        if (fate !== 'synced' && at > namesUntil) continue;
        if (entry === undefined) entries.delete(name);
        else entries.set(name, entry);
      }
      for (const [name, entry] of entries) {
        if (entry.kind === 'folder') writeFolder(entry, join(path, name));
        else writeFileSync(join(path, name), contentOf(entry, isKept), { mode: 0o600 });
      }
    };
    writeFolder(this.root, target);
  }

  private load(folder: Folder, path: string): void {
    for (const found of readdirSync(path, { withFileTypes: true })) {
      const at = join(path, found.name);
      if (found.isDirectory()) {
        const inner: Folder = { kind: 'folder', entries: new Map(), changes: [] };
        this.load(inner, at);
        this.put(folder, found.name, inner);
      } else if (found.isFile()) {
        const bytes = readFileSync(at);
        const changes: Writing[] = [{ ...{ at: 0, fate: 'synced' }, offset: 0, bytes }];
        this.put(folder, found.name, { kind: 'file', length: bytes.length, changes });
      }
    }
    for (const change of folder.changes) change.fate = 'synced';
  }

  /** A folder beside a relative name, which no program of ours uses. */
  private isCurrentFolder(path: string, args: readonly string[]): boolean {
    return args.some((arg) => arg.startsWith('AT_FDCWD<')) && path === process.cwd();
  }

  /** Undefined outside of the folder. */
  private nameOf(path: string | undefined): string | undefined {
    if (path === undefined) return undefined;
    const name = relative(this.path, path);
    return name.startsWith('..') ? undefined : name;
  }

  private find(path: string): Entry | undefined {
    const name = this.nameOf(path);
    if (name === undefined) return undefined;
    let entry: Entry | undefined = this.root;
    for (const part of name === '' ? [] : name.split('/'))
      entry = entry?.kind === 'folder' ? entry.entries.get(part) : undefined;
    return entry;
  }

  private put(folder: Folder, name: string, entry: Entry | undefined): void {
    if (entry === undefined) folder.entries.delete(name);
    else folder.entries.set(name, entry);
    folder.changes.push({ at: this.at, fate: 'pending', name, entry });
  }

  private name(path: string, entry: Entry | undefined): void {
    const folder = this.nameOf(path) === undefined ? undefined : this.find(dirname(path));
    if (folder?.kind === 'folder') this.put(folder, basename(path), entry);
  }

  private change({ name, bytes, args, result }: SystemCall, first: string, second: string): void {
    if (/open|creat/.test(name)) this.open(first, `${result}`, args.join());
    else if (/^writev?$/.test(name)) this.append(first, args[0]?.split('<', 1)[0] ?? '', bytes.subarray(0, result));
    else if (/^pwrite/.test(name)) this.putBytes(first, Number(args.at(-1)), bytes.subarray(0, result));
    else if (name.endsWith('truncate')) this.cut(first, Number(args.at(-1)));
    else if (name.startsWith('mkdir')) this.name(first, { kind: 'folder', entries: new Map(), changes: [] });
    else if (/^(?:unlink|rmdir)/.test(name)) this.name(first, undefined);
    else if (/^(?:link|rename)/.test(name)) {
      const entry = this.find(first);
      if (name.startsWith('rename')) this.name(first, undefined);
      this.name(second, entry);
    } else if (!/^(?:f?chmod|bind)/.test(name) && this.nameOf(second) !== undefined)
      throw new Error(`${name} to ${second} is not known here`);
  }

  private open(path: string, descriptor: string, flags: string): void {
    this.offsets.set(descriptor, 0);
    const found = this.find(path);
    if (found === undefined && /O_CREAT|creat/.test(flags)) this.name(path, { kind: 'file', length: 0, changes: [] });
    if (flags.includes('O_TRUNC') && found?.kind === 'file' && found.length > 0) this.cut(path, 0);
    if (flags.includes('O_APPEND')) this.offsets.set(descriptor, Number.NaN);
  }

  private append(path: string, descriptor: string, bytes: Buffer): void {
    const file = this.find(path);
    const before = this.offsets.get(descriptor) ?? 0;
    const offset = Number.isNaN(before) && file?.kind === 'file' ? file.length : before;
    this.putBytes(path, offset, bytes);
    this.offsets.set(descriptor, before + bytes.length);
  }

  private putBytes(path: string, offset: number, bytes: Buffer): void {
    const file = this.find(path);
    if (file?.kind !== 'file') return;
    file.changes.push({ at: this.at, fate: 'pending', offset, bytes });
    file.length = Math.max(file.length, offset + bytes.length);
  }

  private cut(path: string, length: number): void {
    const file = this.find(path);
    if (file?.kind !== 'file') return;
    file.changes.push({ at: this.at, fate: 'pending', offset: length, bytes: undefined });
    file.length = length;
  }

  private syncNamed(path: string | undefined, result: number): boolean {
    const entry = path === undefined ? undefined : this.find(path);
    if (entry === undefined) return false;
    this.sync(entry, result === 0 ? 'synced' : 'doomed', false);
    return result === 0;
  }

  private sync(entry: Entry, fate: Fate, isDeep: boolean): void {
    for (const change of entry.changes) if (change.fate === 'pending') change.fate = fate;
    if (isDeep && entry.kind === 'folder') for (const inner of entry.entries.values()) this.sync(inner, fate, true);
  }
}

/** What is not synced comes to the disk by pages. */
function contentOf({ changes }: File, isKept: () => boolean): Buffer {
  let content = Buffer.alloc(0);
  const grow = (length: number) => {
    if (content.length < length) content = Buffer.concat([content, Buffer.alloc(length - content.length)]);
  };
  for (const { offset, bytes, fate } of changes) {
    if (bytes === undefined) {
      if (fate !== 'synced' && !isKept()) continue;
      grow(offset);
      content = content.subarray(0, offset);
      continue;
    }
    for (let from = 0; from < bytes.length; ) {
      const to = Math.min(bytes.length, from + PAGE_BYTES - ((offset + from) % PAGE_BYTES));
      if (fate === 'synced' || isKept()) {
        grow(offset + to);
        bytes.copy(content, offset + from, from, to);
      }
      from = to;
    }
  }
  return content;
}

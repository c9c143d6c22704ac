/**
 * A member of an archive: a directory when its path ends in `/`, else a regular file. Owner 0:0,
 * time 0.
 */
export interface TarMember {
  /** At most 100 bytes, relative, as POSIX ustar's name field takes it. */
  readonly path: string;
  /** Content of a regular file; a directory has none. */
  readonly bytes?: Uint8Array;
  /** Makes it a symbolic link with this target, at most 100 bytes. */
  readonly linkTo?: string;
  /** Makes the link a hard link. */
  readonly isHardLink?: boolean;
  /** Default: 0755 of a directory, 0644 of a regular file. */
  readonly mode?: number;
}

const blockBytes = 512;

/**
 * A POSIX ustar archive of the members in the order given, byte for byte the same for the same
 * members.
 */
export function tarArchive(members: readonly TarMember[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const member of members) {
    const bytes = member.bytes ?? new Uint8Array();
    parts.push(header(member, bytes.length), bytes, new Uint8Array(-bytes.length & (blockBytes - 1)));
  }
  parts.push(new Uint8Array(2 * blockBytes));
  return Buffer.concat(parts);
}

function header(
  { path, linkTo, isHardLink, mode = path.endsWith('/') ? 0o755 : 0o644 }: TarMember,
  sizeBytes: number,
): Buffer {
  if (Buffer.byteLength(path) > 100) throw new RangeError(`tar member name is longer than 100 bytes: ${path}`);
  const isDirectory = path.endsWith('/');
  const block = Buffer.alloc(blockBytes);
  block.write(path, 0);
  block.write(`${mode.toString(8).padStart(7, '0')}\0`, 100);
  block.write('0000000\0', 108);
  block.write('0000000\0', 116);
  block.write(`${sizeBytes.toString(8).padStart(11, '0')}\0`, 124);
  block.write('00000000000\0', 136);
  block.write(linkTo !== undefined ? (isHardLink ? '1' : '2') : isDirectory ? '5' : '0', 156);
  block.write(linkTo ?? '', 157);
  block.write('ustar\x0000', 257);
  sumUp(block);
  return block;
}

/** Writes the right checksum into a header. */
export function sumUp(block: Buffer): void {
  // POSIX: the checksum is computed with its own field filled with spaces.
  block.write('        ', 148);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
}

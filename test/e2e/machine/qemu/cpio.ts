/** One member of a cpio archive; `path` has no leading slash. A directory has no content. */
export interface CpioMember {
  readonly path: string;
  /** File type and permissions as in st_mode, as `0o100755`. */
  readonly mode: number;
  readonly content?: Buffer;
}

/**
 * A cpio archive in the "newc" form that Linux unpacks as its initramfs
 * (Documentation/driver-api/early-userspace/buffer-format).
 */
export function cpioArchive(members: readonly CpioMember[]): Buffer {
  const entries = members.map((member, index) => entry(member, index + 1));
  return Buffer.concat([...entries, entry({ path: 'TRAILER!!!', mode: 0 }, 0)]);
}

function entry({ path, mode, content = Buffer.alloc(0) }: CpioMember, inode: number): Buffer {
  const links = 1;
  const fields = [inode, mode, 0, 0, links, 0, content.length, 0, 0, 0, 0, path.length + 1, 0];
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`;
  return Buffer.concat([padded(Buffer.from(`${header}${path}\0`)), padded(content)]);
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
}

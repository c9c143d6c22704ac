import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Takes the lock that containers-storage takes (fcntl, which Node has not), says so, and holds it
 * until its stdin ends. The packed structure is Linux's `struct flock` on 64-bit machines.
 */
const lockHolder = `
use Fcntl qw(F_SETLKW F_WRLCK);
$| = 1;
open(my $file, '+<', $ARGV[0]) or die "$ARGV[0]: $!";
my $range = pack('s s x4 q q l x4', F_WRLCK, 0, 0, 0, 0);
fcntl($file, F_SETLKW, $range) or die "lock: $!";
print "locked\\n";
<STDIN>;
`;

/**
 * Takes one name away from an image in the storage, as CRI-O does for an image that has others
 * left; skopeo has no command for it. Works under the storage's own lock and marks its images as
 * changed, so that running pulls read them again.
 *
 * @param directory `<root>/<driver>-images`.
 * @throws Error when the lock can't be taken (perl is needed) or the files can't be read or
 *   written.
 */
export async function removeImageName(directory: string, id: string, name: string): Promise<void> {
  const lockFile = join(directory, 'images.lock');
  const holder = spawn('perl', ['-e', lockHolder, lockFile], { stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = once(holder, 'close');
  let complaint = '';
  holder.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text;
  });
  try {
    const locked = await Promise.race([once(holder.stdout, 'data'), ended.then(() => undefined)]);
    if (locked === undefined) throw new Error(`locking ${lockFile} failed: ${complaint}`);
    const file = join(directory, 'images.json');
    const records = JSON.parse(await readFile(file, 'utf8')) as { id: string; names?: string[] }[];
    const changed = records.map((record) =>
      record.id === id ? { ...record, names: record.names?.filter((other) => other !== name) } : record,
    );
    await writeFile(`${file}.new`, JSON.stringify(changed), { mode: 0o600 });
    await rename(`${file}.new`, file);
    // Any content other than the last writer's tells the others to load again.
    await writeFile(lockFile, randomBytes(64), { flag: 'r+' });
  } finally {
    holder.stdin.end();
    await ended;
  }
}

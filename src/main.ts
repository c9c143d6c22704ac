/** Entry of the daemon: `stickpin.service` runs it. */
import { unsupportedNode } from './platform/version.ts';

const complaint = unsupportedNode(process.versions.node);
if (complaint === undefined) {
  // Loaded only now: on an older Node.js the native modules crash the process while they are
  // loaded.
  const { runService } = await import('./app/daemon/service.ts');
  process.exitCode = await runService(process.argv.slice(2), new URL('./document-worker.js', import.meta.url));
} else {
  process.stderr.write(`stickpin: ${complaint}\n`);
  process.exitCode = 1;
}

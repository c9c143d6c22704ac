/** Entry of the process that shows the status on a terminal: `stickpin-console.service` runs it. */
import { unsupportedNode } from './platform/version.ts';

const complaint = unsupportedNode(process.versions.node);
if (complaint === undefined) {
  // Loaded only now: on an older Node.js the native modules crash the process while they are
  // loaded.
  const { runConsoleService } = await import('./app/console/service.ts');
  process.exitCode = await runConsoleService(process.argv.slice(2));
} else {
  process.stderr.write(`stickpin-console: ${complaint}\n`);
  process.exitCode = 1;
}

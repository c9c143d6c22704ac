/** Entry of the process that reads registries: `stickpin-sources.service` runs it. */
import { unsupportedNode } from './platform/version.ts';

const complaint = unsupportedNode(process.versions.node);
if (complaint === undefined) {
  // Loaded only now: on an older Node.js the native modules crash the process while they are
  // loaded.
  const { runSourcesService } = await import('./app/sources/service.ts');
  process.exitCode = await runSourcesService(process.argv.slice(2));
} else {
  process.stderr.write(`stickpin-sources: ${complaint}\n`);
  process.exitCode = 1;
}

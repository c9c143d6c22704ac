/** Entry of the command line: `stickpin`. */
import { runCommandLine } from './app/command-line/run-command-line.ts';
import { unsupportedNode } from './platform/version.ts';

const complaint = unsupportedNode(process.versions.node);
if (complaint === undefined) {
  process.exitCode = await runCommandLine(process.argv.slice(2));
} else {
  process.stderr.write(`stickpin: ${complaint}\n`);
  process.exitCode = 1;
}

import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type CommandRun, runCommand } from '../run-command.ts';

/** A `bundle serve` that runs in this process. */
export interface ServingCommand {
  /** As `127.0.0.1:41234`. */
  readonly authority: string;
  /** What it printed with `--json`. */
  readonly report: { readonly repositories: readonly { name: string; paths: string[]; tags: string[] }[] } & Record<
    string,
    unknown
  >;
  stderr(): string;
  /** Interrupts it and returns how it ended. Safe to call twice. */
  stop(): Promise<CommandRun>;
}

/**
 * Starts `bundle serve` on a free port. @throws Error with its output when it ends instead of
 * serving
 */
export async function startServing(bundle: string, ...options: readonly string[]): Promise<ServingCommand> {
  const interrupt = new AbortController();
  let errors = '';
  let ended: Promise<CommandRun> | undefined;
  const printed = new Promise<string>((resolve) => {
    ended = runCommand(['bundle', 'serve', bundle, '--listen', '127.0.0.1:0', '--json', ...options], {
      signal: interrupt.signal,
      onOutput: (stdout, stderr) => {
        errors = stderr;
        if (stdout.endsWith('\n')) resolve(stdout);
      },
    });
  });
  const first = await Promise.race([printed, ended]);
  if (typeof first !== 'string') throw new Error(`bundle serve ended with ${first?.exitCode}: ${first?.stderr}`);
  const report = JSON.parse(first);
  return {
    authority: report.listen,
    report,
    stderr: () => errors,
    stop: async () => {
      interrupt.abort();
      return (await ended) as CommandRun;
    },
  };
}

/** What a request asks beside its path. */
export interface Ask {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly agent?: Agent;
}

/** One answer with its whole body. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/**
 * Asks `authority` for a path, as it is written. The connection is used once unless an agent is
 * given.
 */
export async function ask(authority: string, path: string, options: Ask = {}): Promise<Answer> {
  const { method = 'GET', headers = {}, agent = new Agent() } = options;
  const [host, port] = authority.split(':');
  const asked = request({ host, port, path, method, headers, agent });
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

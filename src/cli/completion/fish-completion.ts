import { type CompletedCommand, pathOf } from './command-words.ts';

/** Completion for fish 3, as a file of /usr/share/fish/vendor_completions.d. */
export function fishCompletion(commands: readonly CompletedCommand[]): string {
  const known = commands.filter(({ path }) => path.length > 0).map((command) => quoted(pathOf(command)));
  return `# Completion of stickpin for fish, made from its command definitions.
function __stickpin_at --description 'Whether the command so far is the given one'
    set --local command ''
    for word in (commandline --tokenize --cut-at-cursor --current-process)[2..-1]
        set --local longer (string trim -- "$command $word")
        if contains -- $longer ${known.join(' ')}
            set command $longer
        end
    end
    test "$command" = "$argv[1]"
end
${commands.flatMap(linesOf).join('\n')}
`;
}

function linesOf(command: CompletedCommand): readonly string[] {
  const start = `complete --command stickpin --condition ${quoted(`__stickpin_at ${quoted(pathOf(command))}`)}`;
  const names = command.commands.map(
    ({ name, description }) => `${start} --no-files --arguments ${name} --description ${quoted(description)}`,
  );
  const options = command.options.map(({ flags, description, takesValue, choices }) => {
    const words = flags.map((flag) =>
      flag.startsWith('--') ? `--long-option ${flag.slice(2)}` : `--short-option ${flag.slice(1)}`,
    );
    const value = takesValue ? ' --require-parameter' : '';
    const given = choices.length === 0 ? '' : ` --no-files --arguments ${quoted(choices.join(' '))}`;
    return `${start} ${words.join(' ')}${value}${given} --description ${quoted(description)}`;
  });
  return [...names, ...options];
}

/** `text` as one word of fish. */
function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

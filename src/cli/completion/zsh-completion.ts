import { type CompletedCommand, commandPatterns, pathOf, shellQuoted, valueBranches } from './command-words.ts';

/** Completion for zsh, as the file `_stickpin` of a folder in `fpath`. */
export function zshCompletion(commands: readonly CompletedCommand[]): string {
  return `#compdef stickpin
# Completion of stickpin for zsh, made from its command definitions.
_stickpin() {
  local command= word
  local -a names flags
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${command:+$command }$word" in
      ${commandPatterns(commands)}) command=\${command:+$command }$word ;;
    esac
  done
  case "$command \${words[CURRENT-1]}" in
${valueBranches(commands, reply)}
  esac
  case "$command" in
${commands.map(block).join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    _describe -o 'option' flags
  elif (( \${#names} )); then
    _describe 'command' names
  else
    _files
  fi
}
_stickpin "$@"
`;
}

/** What follows an option with a value: its choices, or the name of a file. */
function reply(choices: readonly string[]): string {
  return choices.length === 0 ? '_files' : `compadd -- ${choices.map(shellQuoted).join(' ')}`;
}

function block(command: CompletedCommand): string {
  const names = command.commands.map(({ name, description }) => described(name, description));
  const flags = command.options.flatMap((option) => option.flags.map((flag) => described(flag, option.description)));
  return `    ${shellQuoted(pathOf(command))})
      names=(${names.join(' ')})
      flags=(${flags.join(' ')}) ;;`;
}

/** A colon ends the word before the description. */
function described(word: string, description: string): string {
  return shellQuoted(`${word.replaceAll(':', '\\:')}:${description}`);
}
